#include "kernels/linear_recurrence/op.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/documents.h"
#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "linear_recurrence";

enum Implementation : size_t { kChunked, kReference };

std::string refuse_chunked(const RecurrenceProblem& problem) {
  if (problem.decay == DecayKind::kHeadToken || problem.decay == DecayKind::kKeyToken) return "the decay depends on the token";
  if (problem.log_decay.defined() && problem.log_decay.requires_grad()) return "the decay wants a gradient";
  return "";
}

class RecurrenceFunction : public torch::autograd::Function<RecurrenceFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& q, const Tensor& k,
                                                const Tensor& v, const std::optional<Tensor>& log_decay,
                                                const std::optional<Tensor>& initial_state, const RecurrenceProblem& problem,
                                                int64_t implementation) {
    context->set_materialize_grads(false);
    context->save_for_backward({q, k, v, log_decay.value_or(Tensor()), initial_state.value_or(Tensor())});
    context->saved_data["implementation"] = implementation;
    context->saved_data["offsets"] = offsets_tensor(problem.offsets);
    context->saved_data["scale"] = problem.options.scale;
    context->saved_data["reverse"] = problem.options.reverse;
    context->saved_data["chunk"] = problem.options.chunk;
    const auto result = implementation == kChunked ? recurrence_forward_chunked(problem) : recurrence_forward_reference(problem);
    return {result.o_thd, result.final_state_nhkv};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto& data = context->saved_data;
    const RecurrenceProblem problem =
        recurrence_problem(saved[0], saved[1], saved[2], saved[3], saved[4], data.at("offsets").toTensor(),
                           {.scale = data.at("scale").toDouble(),
                            .reverse = data.at("reverse").toBool(),
                            .chunk = data.at("chunk").toInt()});
    const Tensor d_o = gradients[0].defined() ? gradients[0] : at::zeros({saved[0].size(0), saved[0].size(1), saved[2].size(2)},
                                                                          saved[2].options());
    const bool want_decay = saved[3].defined() && saved[3].requires_grad();
    auto result = data.at("implementation").toInt() == kChunked
                      ? recurrence_backward_chunked(problem, d_o, gradients[1])
                      : recurrence_backward_reference(problem, d_o, gradients[1], want_decay);
    if (!saved[4].defined()) result.initial_state_nhkv = Tensor();
    return {result.q_thk, result.k_thk, result.v_thv, result.log_decay, result.initial_state_nhkv, Tensor(), Tensor()};
  }
};

LinearRecurrenceResult run(const RecurrenceProblem& problem, Implementation implementation) {
  const auto optional = [](const Tensor& tensor) { return tensor.defined() ? std::optional<Tensor>(tensor) : std::nullopt; };
  const auto outputs = RecurrenceFunction::apply(problem.q_thk, problem.k_thk, problem.v_thv, optional(problem.log_decay),
                                                 optional(problem.initial_state_nhkv), problem, static_cast<int64_t>(implementation));
  return {outputs[0], outputs[1]};
}

void check_dtype(const Tensor& tensor, const Tensor& like, const char* argument) {
  if (tensor.scalar_type() != like.scalar_type() || tensor.device() != like.device()) {
    refuse_argument(kOp, argument, "dtype and device of q: " + shape_text(like), shape_text(tensor));
  }
}

}  // namespace

RecurrenceProblem recurrence_problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                     const Tensor& initial_state, const Tensor& offsets, const LinearRecurrenceOptions& options) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type())) refuse_argument(kOp, "q", "[tokens, heads, key channels], floating point", shape_text(q));
  const int64_t tokens = q.size(0), heads = q.size(1), key = q.size(2);
  if (k.dim() != 3 || k.size(0) != tokens || k.size(2) != key || k.size(1) == 0 || heads % k.size(1) != 0) {
    refuse_argument(kOp, "k", fmt::format("[{}, a divisor of {}, {}]", tokens, heads, key), shape_text(k));
  }
  if (v.dim() != 3 || v.size(0) != tokens || v.size(1) != k.size(1)) {
    refuse_argument(kOp, "v", fmt::format("[{}, {}, value channels]", tokens, k.size(1)), shape_text(v));
  }
  check_dtype(k, q, "k");
  check_dtype(v, q, "v");
  RecurrenceProblem problem{q, k, v, log_decay, initial_state, document_offsets(offsets, tokens, kOp), DecayKind::kNone, options};
  if (options.chunk < 1) refuse_argument(kOp, "chunk", "1 or more", std::to_string(options.chunk));
  if (log_decay.defined()) {
    const auto sizes = log_decay.sizes();
    if (sizes == at::IntArrayRef({heads})) {
      problem.decay = DecayKind::kHead;
    } else if (sizes == at::IntArrayRef({tokens, heads})) {
      problem.decay = DecayKind::kHeadToken;
    } else if (sizes == at::IntArrayRef({tokens, heads, key})) {
      problem.decay = DecayKind::kKeyToken;
    } else {
      refuse_argument(kOp, "log_decay", fmt::format("[{1}], [{0}, {1}] or [{0}, {1}, {2}]", tokens, heads, key), shape_text(log_decay));
    }
  }
  if (initial_state.defined()) {
    const std::vector<int64_t> expected{problem.documents(), heads, key, v.size(2)};
    if (initial_state.sizes() != at::IntArrayRef(expected) || initial_state.scalar_type() != problem.state_type()) {
      refuse_argument(kOp, "initial_state", fmt::format("[{}, {}, {}, {}] {}", expected[0], expected[1], expected[2], expected[3],
                                                        name_of(problem.state_type())), shape_text(initial_state));
    }
  }
  return problem;
}

const Dispatcher& linear_recurrence_dispatcher() {
  static const Dispatcher dispatcher(kOp);
  return dispatcher;
}

LinearRecurrenceResult linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                         const Tensor& initial_state, const Tensor& offsets,
                                         const LinearRecurrenceOptions& options) {
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, initial_state, offsets, options);
  const size_t choice = linear_recurrence_dispatcher().choose(
      {"chunked", "reference"}, [&](size_t i) { return i == kChunked ? refuse_chunked(problem) : std::string(); });
  return run(problem, static_cast<Implementation>(choice));
}

LinearRecurrenceResult linear_recurrence_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                                   const Tensor& initial_state, const Tensor& offsets,
                                                   const LinearRecurrenceOptions& options) {
  return run(recurrence_problem(q, k, v, log_decay, initial_state, offsets, options), kReference);
}

}  // namespace longhaul::kernels
