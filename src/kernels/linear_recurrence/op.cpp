#include "kernels/linear_recurrence/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear_recurrence/cpu.h"
#include "kernels/linear_recurrence/cuda_call.h"
#include "kernels/linear_recurrence/gate.h"
#include "kernels/linear_recurrence/tiles.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kOp = "linear_recurrence";

enum Implementation : size_t { kCuda, kCpu, kMeta, kAten, kReference };
constexpr std::string_view kImplementations[] = {"cuda", "cpu", "meta", "aten", "reference"};

Refusal refuse_gpu(const RecurrenceProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.q_thk);
  return refusal.empty() ? cuda_calls<RecurrenceCuda>().refuse(problem) : refusal;
}

Refusal refusal(const RecurrenceProblem& problem, size_t implementation) {
  switch (implementation) {
    case kCuda:
      return refuse_gpu(problem);
    case kCpu:
      return refuse_cpu(problem);
    case kMeta:
      return problem.q_thk.is_meta() ? Refusal() : kNotMeta;
    case kReference:
      return problem.q_thk.is_cpu() ? Refusal() : kNotOnCpu;
    default:
      return "";
  }
}

LinearRecurrenceResult forward_of(const RecurrenceProblem& problem, Implementation implementation, Tensor* boundaries) {
  switch (implementation) {
    case kCuda:
      return cuda_calls<RecurrenceCuda>().forward(problem);
    case kCpu:
      return recurrence_forward_cpu(problem, boundaries);
    default:
      return recurrence_forward_reference(problem);
  }
}

RecurrenceGradients backward_of(const RecurrenceProblem& problem, Implementation implementation, const Tensor& d_o, const Tensor& d_final,
                                const Tensor& boundaries) {
  const bool want_decay = wants_decay(problem);
  if (implementation == kCuda) return cuda_calls<RecurrenceCuda>().backward(problem, d_o, d_final, want_decay);
  if (implementation == kReference) return recurrence_backward_reference(problem, d_o, d_final, want_decay);
  const auto like = [](const Tensor& x) { return x.defined() ? at::empty(x.sizes(), x.options()) : Tensor(); };
  const auto fp32 = problem.q_thk.options().dtype(at::kFloat);
  RecurrenceGradients out{like(problem.q_thk), like(problem.k_thk), like(problem.v_thv)};
  if (want_decay) out.log_decay = at::empty(problem.log_decay.sizes(), problem.gated() ? problem.log_decay.options() : fp32);
  if (want_decay && problem.gate().lower_bound_hk.defined()) out.lower_bound_hk = at::empty_like(problem.gate().lower_bound_hk);
  out.initial_state_nhkv = at::empty({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)}, fp32);
  recurrence_backward_cpu(problem, d_o, d_final, boundaries, out);
  if (want_decay) out.log_decay = out.log_decay.to(problem.log_decay.scalar_type());
  return out;
}

LinearRecurrenceOptions without_tensors(LinearRecurrenceOptions options) {
  options.gate.lower_bound_hk = Tensor();
  return options;
}

LinearRecurrenceResult run(const RecurrenceProblem& problem, Implementation implementation) {
  const std::vector<Tensor> inputs{
      problem.q_thk, problem.k_thk, problem.v_thv, problem.log_decay, problem.initial_state_nhkv, problem.gate().lower_bound_hk};
  const bool keep =
      at::GradMode::is_enabled() && std::ranges::any_of(inputs, [](const Tensor& each) { return each.defined() && each.requires_grad(); });
  const auto backward = [offsets = problem.offsets, options = without_tensors(problem.options), implementation](const BackwardCall& call) {
    LinearRecurrenceOptions again = options;
    again.gate.lower_bound_hk = call.saved[5];
    const RecurrenceProblem saved =
        recurrence_problem(call.saved[0], call.saved[1], call.saved[2], call.saved[3], call.saved[4], to_tensor(offsets), again);
    const Tensor d_o = call.gradients[0].defined() ? call.gradients[0]
                                                   : at::zeros({saved.tokens(), saved.heads(), saved.v_thv.size(2)}, saved.v_thv.options());
    const auto result = backward_of(saved, implementation, d_o, call.gradients[1], call.saved[6]);
    return std::vector<Tensor>{
        result.q_thk,         result.k_thk, result.v_thv, result.log_decay, call.saved[4].defined() ? result.initial_state_nhkv : Tensor(),
        result.lower_bound_hk};
  };
  const std::vector<Tensor> outputs = differentiable(kOp, inputs, [&]() -> Recorded {
    Tensor boundaries;
    const auto result = forward_of(problem, implementation, keep ? &boundaries : nullptr);
    std::vector<Tensor> saved = inputs;
    saved.push_back(boundaries);
    return {.results = {result.o_thd, result.final_state_nhkv}, .saved = saved, .backward = backward, .zeros_for_missing = false};
  });
  return {outputs[0], outputs[1]};
}

// Gives keys to implementations that want them: 1 − e^g (a gate makes its own), and v for each of them.
RecurrenceProblem with_keys(RecurrenceProblem problem) {
  if (!problem.options.tied_keys) return problem;
  problem.v_thv = problem.v_thv.repeat_interleave(problem.group(), 1);
  if (problem.gated()) return problem;
  problem.k_thk = problem.log_decay.expm1().neg().to(problem.q_thk.scalar_type());
  problem.options.tied_keys = false;
  return problem;
}

size_t choose(const RecurrenceProblem& problem) {
  return Dispatcher(kOp, kImplementations).choose([&](size_t i) { return refusal(problem, i); });
}

void check_dtype(const Tensor& tensor, const Tensor& like, const char* argument) {
  if (tensor.scalar_type() != like.scalar_type() || tensor.device() != like.device()) {
    refuse_argument(kOp, argument, "dtype and device of q: " + shape_text(like), shape_text(tensor));
  }
}

// On a GPU the host would have to wait: there the kernels answer with NaN. The cpu form looks at decays per channel itself, block by block,
// where it reads them: elsewhere that would be a pass over as many bytes as q, k and v have together.
void check_decays(const RecurrenceProblem& problem, Implementation implementation) {
  const Tensor& log_decay = problem.log_decay;
  if (!log_decay.defined() || !log_decay.is_cpu() || log_decay.numel() == 0) return;
  if (implementation == kCpu && problem.decay == DecayKind::kKeyToken) return;
  refuse_rising_decay(log_decay.detach().max().item<double>());
}

// A gate's decays are at most 1 by themselves, if γ is: a few numbers, unlike the logits.
void check_values(const RecurrenceProblem& problem, Implementation implementation) {
  if (!problem.gated()) return check_decays(problem, implementation);
  const Tensor& bound = problem.gate().lower_bound_hk;
  if (!bound.defined() || !bound.is_cpu()) return;
  const at::NoGradGuard no_gradients;
  if (bound.ge(0).logical_and(bound.lt(1)).all().item<bool>()) return;
  refuse_argument(kOp, "gate.lower_bound", "numbers from 0 to less than 1",
                  fmt::format("{} to {}", bound.min().item<double>(), bound.max().item<double>()));
}

void check_state(const RecurrenceProblem& problem, const char* name, const Tensor& state, int64_t sequences) {
  const std::vector<int64_t> expected{sequences, problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)};
  if (state.sizes() == at::IntArrayRef(expected) && state.scalar_type() == problem.state_type() &&
      state.device() == problem.q_thk.device()) {
    return;
  }
  refuse_argument(kOp, name,
                  fmt::format("[{}, {}, {}, {}] {} on the device of q", expected[0], expected[1], expected[2], expected[3],
                              name_of(problem.state_type())),
                  shape_text(state));
}

void check_states(const RecurrenceProblem& problem, const RecurrenceStates& states) {
  check_state(problem, "states", states.state_shkv, states.state_shkv.size(0));
  if (!states.state_shkv.is_contiguous()) refuse_argument(kOp, "states", "contiguous", "strides of another order");
  const int64_t sequences = states.state_shkv.size(0);
  std::vector<bool> named(static_cast<size_t>(sequences));
  for (const int64_t row : states.rows) {
    if (row < 0 || row >= sequences || named[static_cast<size_t>(row)])
      refuse_argument(kOp, "rows", fmt::format("different ones of {} sequences", sequences), std::to_string(row));
    named[static_cast<size_t>(row)] = true;
  }
  if (static_cast<int64_t>(states.rows.size()) != problem.documents())
    refuse_argument(kOp, "rows", fmt::format("{}, one for each document", problem.documents()), std::to_string(states.rows.size()));
}

void check_gate(const RecurrenceProblem& problem) {
  const RecurrenceGate& gate = problem.gate();
  const Tensor& bound = gate.lower_bound_hk;
  const bool bounded = gate.kind == RecurrenceGate::Kind::kLowerBounded;
  if (!bounded && bound.defined()) refuse_argument(kOp, "gate.lower_bound", "nothing, for another gate", shape_text(bound));
  if (!(gate.divisor > 0) || !std::isfinite(gate.divisor) || (gate.divisor != 1 && gate.kind != RecurrenceGate::Kind::kLogSigmoid))
    refuse_argument(kOp, "gate.divisor", "above 0, and 1 but for log_sigmoid", fmt::format("{}", gate.divisor));
  if (!problem.gated()) return;
  const int64_t tokens = problem.tokens(), heads = problem.heads(), key = problem.q_thk.size(2);
  if (problem.decay != DecayKind::kKeyToken && (bounded || problem.decay != DecayKind::kHeadToken)) {
    refuse_argument(kOp, "log_decay",
                    bounded ? fmt::format("logits [{}, {}, {}]", tokens, heads, key)
                            : fmt::format("logits [{0}, {1}] or [{0}, {1}, {2}]", tokens, heads, key),
                    shape_text(problem.log_decay));
  }
  if (!bounded) return;
  if (!bound.defined() || bound.sizes() != at::IntArrayRef({heads, key}) || bound.scalar_type() != problem.state_type() ||
      bound.device() != problem.q_thk.device()) {
    refuse_argument(kOp, "gate.lower_bound", fmt::format("[{}, {}] {} on the device of q", heads, key, name_of(problem.state_type())),
                    shape_text(bound));
  }
}

}  // namespace

void refuse_rising_decay(double largest) {
  if (largest > cuda::kLargestLogDecay) refuse_argument(kOp, "log_decay", "0 or less", fmt::format("{}", largest));
}

RecurrenceProblem recurrence_problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                     const Tensor& initial_state, const Tensor& offsets, const LinearRecurrenceOptions& options) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kOp, "q", "[tokens, heads, key channels], floating point", shape_text(q));
  const int64_t tokens = q.size(0), heads = q.size(1), key = q.size(2);
  if (v.dim() != 3 || v.size(0) != tokens || v.size(1) == 0 || heads % v.size(1) != 0) {
    refuse_argument(kOp, "v", fmt::format("[{}, a divisor of {}, value channels]", tokens, heads), shape_text(v));
  }
  check_dtype(v, q, "v");
  if (options.tied_keys) {
    if (k.defined()) refuse_argument(kOp, "k", "nothing, because keys are tied to the decay", shape_text(k));
    if (!log_decay.defined() || log_decay.dim() != 3) {
      refuse_argument(kOp, "log_decay", fmt::format("[{}, {}, {}] for tied keys", tokens, heads, key), shape_text(log_decay));
    }
  } else {
    if (!k.defined() || k.dim() != 3 || k.size(0) != tokens || k.size(2) != key || k.size(1) != v.size(1)) {
      refuse_argument(kOp, "k", fmt::format("[{}, {} (as v), {}]", tokens, v.size(1), key), shape_text(k));
    }
    check_dtype(k, q, "k");
  }
  if (options.block != 0 && (options.block < 16 || options.block > 256 || (options.block & (options.block - 1)) != 0)) {
    refuse_argument(kOp, "block", "0 or a power of two from 16 to 256", std::to_string(options.block));
  }
  RecurrenceProblem problem{q, k, v, log_decay, initial_state, document_offsets(offsets, tokens, kOp), DecayKind::kNone, options};
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
    if (!at::isFloatingType(log_decay.scalar_type()) || log_decay.device() != q.device())
      refuse_argument(kOp, "log_decay", "floating point on the device of q: " + shape_text(q), shape_text(log_decay));
  }
  check_gate(problem);
  if (initial_state.defined()) check_state(problem, "initial_state", initial_state, problem.documents());
  return problem;
}

LinearRecurrenceResult linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                         const Tensor& initial_state, const Tensor& offsets, const LinearRecurrenceOptions& options) {
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, initial_state, offsets, options);
  const auto implementation = static_cast<Implementation>(choose(problem));
  check_values(problem, implementation);
  if (implementation == kMeta) {
    const auto results = meta_results({q, k, v, log_decay, initial_state, options.gate.lower_bound_hk},
                                      {{{q.size(0), q.size(1), v.size(2)}, v.scalar_type()},
                                       {{problem.documents(), q.size(1), q.size(2), v.size(2)}, problem.state_type()}});
    return {results[0], results[1]};
  }
  if (implementation == kAten) return linear_recurrence_aten(with_gate_made(with_keys(problem)));
  return run(implementation == kCuda || implementation == kCpu ? problem : with_keys(problem), implementation);
}

Tensor linear_recurrence_continued(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                   const RecurrenceStates& states, const Tensor& offsets, const LinearRecurrenceOptions& options) {
  const at::NoGradGuard no_gradient;
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, Tensor(), offsets, options);
  check_states(problem, states);
  const auto implementation = static_cast<Implementation>(choose(problem));
  if (implementation == kCpu) {
    check_values(problem, implementation);
    const Tensor o = recurrence_continue_cpu(problem, states);
    if (o.defined()) return o;
  }
  const Tensor rows = to_tensor(states.rows, q.device());
  const auto result = linear_recurrence(q, k, v, log_decay, states.state_shkv.index_select(0, rows), offsets, options);
  Tensor(states.state_shkv).index_copy_(0, rows, result.final_state_nhkv);
  return result.o_thd;
}

LinearRecurrenceResult linear_recurrence_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                                   const Tensor& initial_state, const Tensor& offsets,
                                                   const LinearRecurrenceOptions& options) {
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, initial_state, offsets, options);
  check_values(problem, kReference);
  return run(with_keys(problem), kReference);
}

}  // namespace longhaul::kernels
