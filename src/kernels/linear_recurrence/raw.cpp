#include "kernels/linear_recurrence/raw.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/by_device.h"
#include "kernels/documents.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "kernels/linear_recurrence/cuda_call.h"
#include "kernels/linear_recurrence/gate.h"
#include "kernels/operator_clock.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kFold = "linear_recurrence_fold";
constexpr std::string_view kImplementations[] = {"cuda", "cpu", "meta", "aten", "reference"};

Refusal refuse_gpu(const RecurrenceProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.q_thk);
  return refusal.empty() ? cuda_calls<RecurrenceCuda>().refuse(problem) : refusal;
}

RecurrenceBy choose(const char* op, const RecurrenceProblem& problem) {
  return static_cast<RecurrenceBy>(Dispatcher(op, kImplementations).choose([&](size_t i) -> Refusal {
    switch (static_cast<RecurrenceBy>(i)) {
      case RecurrenceBy::kCuda:
        return op == kFold ? Refusal("its runs have outputs") : refuse_gpu(problem);
      case RecurrenceBy::kCpu:
        return refuse_cpu(problem);
      case RecurrenceBy::kMeta:
        return problem.q_thk.is_meta() ? Refusal() : kNotMeta;
      case RecurrenceBy::kReference:
        return problem.q_thk.is_cpu() ? Refusal() : kNotOnCpu;
      default:
        return {};
    }
  }));
}

// On a GPU the host would have to wait: there the kernels answer with NaN. The cpu form looks at decays per
// channel itself, block by block, where it reads them: elsewhere that would be a pass over as many bytes as
// q, k and v have together.
void check_decays(const RecurrenceProblem& problem, RecurrenceBy by) {
  const Tensor& log_decay = problem.log_decay;
  if (!log_decay.defined() || !log_decay.is_cpu() || log_decay.numel() == 0) return;
  if (by == RecurrenceBy::kCpu && problem.decay == DecayKind::kKeyToken) return;
  refuse_rising_decay(log_decay.detach().max().item<double>());
}

Tensor empty_like_or_none(const Tensor& x) {
  return x.defined() ? at::empty(x.sizes(), x.options()) : Tensor();
}

RecurrenceGradients empty_gradients(const RecurrenceProblem& problem, bool want_decay) {
  const auto wide = problem.q_thk.options().dtype(problem.state_type());
  RecurrenceGradients out{empty_like_or_none(problem.q_thk), empty_like_or_none(problem.k_thk),
                          empty_like_or_none(problem.v_thv)};
  if (want_decay)
    out.log_decay =
        at::empty(problem.log_decay.sizes(), problem.gated() ? problem.log_decay.options() : wide);
  if (want_decay) out.lower_bound_hk = empty_like_or_none(problem.gate().lower_bound_hk);
  out.initial_state_nhkv =
      at::empty({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)}, wide);
  return out;
}

// By differentiating the forward pass, which runs again.
RecurrenceGradients backward_aten(const RecurrenceProblem& problem, const Tensor& d_o, const Tensor& d_final,
                                  bool want_decay) {
  const at::AutoGradMode recording(true);
  std::vector<Tensor> leaves;
  std::vector<size_t> index;  // of the leaf of each place, one past the leaves: none
  const auto leaf = [&](const Tensor& x, bool wanted) {
    index.push_back(x.defined() && wanted ? leaves.size() : SIZE_MAX);
    if (!x.defined() || !wanted) return x;
    leaves.push_back(x.detach().requires_grad_(true));
    return leaves.back();
  };
  const Tensor zeros =
      at::zeros({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)},
                problem.q_thk.options().dtype(problem.state_type()).requires_grad(false));
  RecurrenceProblem of_leaves = problem;
  of_leaves.q_thk = leaf(problem.q_thk, true);
  of_leaves.k_thk = leaf(problem.k_thk, true);
  of_leaves.v_thv = leaf(problem.v_thv, true);
  of_leaves.log_decay = leaf(problem.log_decay, want_decay);
  of_leaves.initial_state_nhkv =
      leaf(problem.initial_state_nhkv.defined() ? problem.initial_state_nhkv : zeros, true);
  of_leaves.options.gate.lower_bound_hk = leaf(problem.gate().lower_bound_hk, want_decay);
  const LinearRecurrenceResult result =
      linear_recurrence_aten(with_gate_made(with_recurrence_keys(of_leaves)));
  const std::vector<Tensor> gradients = torch::autograd::grad(
      {result.o_thd, result.final_state_nhkv}, leaves, {d_o, d_final.defined() ? d_final : zeros},
      /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
  const auto of = [&](size_t place) {
    if (index[place] == SIZE_MAX) return Tensor();
    const Tensor& gradient = gradients[index[place]];
    return gradient.defined() ? gradient : at::zeros_like(leaves[index[place]]).detach();
  };
  return {of(0), of(1), of(2), of(3), of(4), of(5)};
}

RecurrenceProblem problem_of(const RecurrenceInputs& in) {
  return recurrence_problem(in.q_thk, in.k_thk, in.v_thv, in.log_decay, in.initial_state_nhkv, in.offsets,
                            in.options);
}

RecurrenceFold fold_of(const RecurrenceProblem& problem, const Tensor& d_o) {
  const RecurrenceBy by = choose(kFold, problem);
  check_recurrence_values(problem, by);
  const auto wide = problem.q_thk.options().dtype(problem.state_type());
  const int64_t documents = problem.documents(), heads = problem.heads(), keys = problem.q_thk.size(2);
  RecurrenceFold out{at::empty({documents, heads, keys, problem.v_thv.size(2)}, wide),
                     at::empty({documents, heads, keys}, wide)};
  if (by == RecurrenceBy::kCpu) recurrence_fold_cpu(problem, d_o, out.state_nhkv, out.decay_nhk);
  if (by == RecurrenceBy::kAten)
    recurrence_fold_aten(with_gate_made(with_recurrence_keys(problem)), d_o.defined(), out.state_nhkv,
                         out.decay_nhk);
  if (by == RecurrenceBy::kReference)
    recurrence_fold_reference(with_recurrence_keys(problem), d_o.defined(), out.state_nhkv, out.decay_nhk);
  return out;
}

}  // namespace

RecurrenceBy choose_recurrence(const RecurrenceProblem& problem) { return choose(kRecurrenceOp, problem); }

// A gate's decays are at most 1 by themselves, if γ is: a few numbers, unlike the logits.
void check_recurrence_values(const RecurrenceProblem& problem, RecurrenceBy by) {
  if (!problem.gated()) return check_decays(problem, by);
  const Tensor& bound = problem.gate().lower_bound_hk;
  if (!bound.defined() || !bound.is_cpu()) return;
  const at::NoGradGuard no_gradients;
  if (bound.ge(0).logical_and(bound.lt(1)).all().item<bool>()) return;
  refuse_argument(kRecurrenceOp, "gate.lower_bound", "numbers from 0 to less than 1",
                  fmt::format("{} to {}", bound.min().item<double>(), bound.max().item<double>()));
}

RecurrenceProblem with_recurrence_keys(RecurrenceProblem problem) {
  if (!problem.options.tied_keys) return problem;
  problem.v_thv = problem.v_thv.repeat_interleave(problem.group(), 1);
  if (problem.gated()) return problem;
  problem.k_thk = problem.log_decay.expm1().neg().to(problem.q_thk.scalar_type());
  problem.options.tied_keys = false;
  return problem;
}

// The operations of the forward pass, token by token: the state takes a key's value and is read by a query.
// The backward pass has twice as many.
static double recurrence_flops(const RecurrenceProblem& problem) {
  return 4.0 * static_cast<double>(problem.tokens() * problem.heads() * problem.q_thk.size(2) *
                                   problem.v_thv.size(2));
}

LinearRecurrenceResult recurrence_forward_by(RecurrenceBy by, const RecurrenceProblem& problem,
                                             Tensor* boundaries) {
  count_flops(recurrence_flops(problem));
  switch (by) {
    case RecurrenceBy::kCuda:
      return cuda_calls<RecurrenceCuda>().forward(problem);
    case RecurrenceBy::kCpu:
      return recurrence_forward_cpu(problem, boundaries);
    case RecurrenceBy::kMeta:
      return {at::empty({problem.tokens(), problem.heads(), problem.v_thv.size(2)}, problem.v_thv.options()),
              empty_gradients(problem, false).initial_state_nhkv};
    case RecurrenceBy::kAten:
      return linear_recurrence_aten(with_gate_made(with_recurrence_keys(problem)));
    default:
      return recurrence_forward_reference(problem);
  }
}

RecurrenceGradients recurrence_backward_by(RecurrenceBy by, const RecurrenceProblem& problem,
                                           const Tensor& d_o, const Tensor& d_final, const Tensor& boundaries,
                                           bool want_decay) {
  count_flops(2 * recurrence_flops(problem));
  if (by == RecurrenceBy::kCuda)
    return cuda_calls<RecurrenceCuda>().backward(problem, d_o, d_final, want_decay);
  if (by == RecurrenceBy::kReference) return recurrence_backward_reference(problem, d_o, d_final, want_decay);
  if (by == RecurrenceBy::kAten) return backward_aten(problem, d_o, d_final, want_decay);
  RecurrenceGradients out = empty_gradients(problem, want_decay);
  if (by == RecurrenceBy::kCpu) recurrence_backward_cpu(problem, d_o, d_final, boundaries, out);
  if (want_decay) out.log_decay = out.log_decay.to(problem.log_decay.scalar_type());
  return out;
}

RecurrenceFold fold_recurrence(const RecurrenceInputs& in, int64_t heads) {
  const at::NoGradGuard no_gradient;
  const Tensor& like = in.options.tied_keys ? in.log_decay : in.k_thk;
  if (!like.defined() || like.dim() != 3 || in.v_thv.dim() != 3)
    refuse_argument(kFold, "k", "[tokens, heads, key channels]", shape_text(like));
  RecurrenceInputs all = in;  // queries, of which only the shape is looked at
  all.q_thk = at::zeros({like.size(2)}, in.v_thv.options()).expand({like.size(0), heads, like.size(2)});
  all.initial_state_nhkv = Tensor();
  return fold_of(problem_of(all), Tensor());
}

RecurrenceFold fold_recurrence_gradient(const RecurrenceInputs& in, const Tensor& d_o) {
  const at::NoGradGuard no_gradient;
  RecurrenceInputs all = in;
  all.k_thk = in.q_thk;
  all.v_thv = d_o;
  all.initial_state_nhkv = Tensor();
  all.options.tied_keys = false;
  return fold_of(problem_of(all), d_o);
}

RecurrenceRun run_recurrence(const RecurrenceInputs& in) {
  const at::NoGradGuard no_gradient;
  const RecurrenceProblem problem = problem_of(in);
  const RecurrenceBy by = choose_recurrence(problem);
  check_recurrence_values(problem, by);
  RecurrenceRun run;
  run.result = recurrence_forward_by(
      by, by == RecurrenceBy::kReference ? with_recurrence_keys(problem) : problem, &run.boundaries);
  return run;
}

RecurrenceGradients run_recurrence_backward(const RecurrenceInputs& in, const Tensor& boundaries,
                                            const Tensor& d_o, const Tensor& d_final, bool want_decay) {
  const at::NoGradGuard no_gradient;
  const RecurrenceProblem problem = problem_of(in);
  const RecurrenceBy by = choose_recurrence(problem);
  if (want_decay && !in.log_decay.defined())
    refuse_argument(kRecurrenceOp, "log_decay", "one, whose gradient is wanted", "nothing");
  if (d_o.sizes() != at::IntArrayRef({problem.tokens(), problem.heads(), problem.v_thv.size(2)}))
    refuse_argument(kRecurrenceOp, "d_o",
                    fmt::format("[{}, {}, {}]", problem.tokens(), problem.heads(), problem.v_thv.size(2)),
                    shape_text(d_o));
  Tensor states = boundaries;
  if (by == RecurrenceBy::kCpu && !states.defined()) recurrence_forward_cpu(problem, &states);
  return recurrence_backward_by(by, problem, d_o, d_final, states, want_decay);
}

}  // namespace longhaul::kernels
