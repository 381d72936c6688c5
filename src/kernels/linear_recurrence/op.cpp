#include "kernels/linear_recurrence/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "kernels/linear_recurrence/cuda/tiles.h"
#include "kernels/linear_recurrence/gate.h"
#include "kernels/saved/recomputed.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

LinearRecurrenceOptions without_tensors(LinearRecurrenceOptions options) {
  options.gate.lower_bound_hk = Tensor();
  return options;
}

LinearRecurrenceResult run(const RecurrenceProblem& problem, RecurrenceBy by) {
  const std::vector<Tensor> inputs{problem.q_thk,
                                   problem.k_thk,
                                   problem.v_thv,
                                   problem.log_decay,
                                   problem.initial_state_nhkv,
                                   problem.gate().lower_bound_hk};
  const bool keep = at::GradMode::is_enabled() && std::ranges::any_of(inputs, [](const Tensor& each) {
                      return each.defined() && each.requires_grad();
                    });
  const auto backward = [offsets = problem.offsets, options = without_tensors(problem.options),
                         by](const BackwardCall& call) {
    LinearRecurrenceOptions again = options;
    again.gate.lower_bound_hk = call.saved[5];
    const RecurrenceProblem saved = recurrence_problem(
        call.saved[0], call.saved[1], call.saved[2], call.saved[3], call.saved[4], to_tensor(offsets), again);
    const Tensor d_o =
        call.gradients[0].defined()
            ? call.gradients[0]
            : at::zeros({saved.tokens(), saved.heads(), saved.v_thv.size(2)}, saved.v_thv.options());
    const auto result =
        recurrence_backward_by(by, saved, d_o, call.gradients[1], call.saved[6], wants_decay(saved));
    return std::vector<Tensor>{result.q_thk,
                               result.k_thk,
                               result.v_thv,
                               result.log_decay,
                               call.saved[4].defined() ? result.initial_state_nhkv : Tensor(),
                               result.lower_bound_hk};
  };
  const std::vector<Tensor> outputs = differentiable(kRecurrenceOp, inputs, [&]() -> Recorded {
    Tensor final_state;
    const std::vector<Tensor> made = recurrence_once(problem.initial_state_nhkv, [&] {
      Tensor boundaries;
      const auto result = recurrence_forward_by(by, problem, keep ? &boundaries : nullptr);
      final_state = result.final_state_nhkv;
      return std::vector<Tensor>{result.o_thd, boundaries};
    });
    if (!final_state.defined())
      final_state =
          unread_state({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)},
                       problem.q_thk.options().dtype(problem.state_type()));
    std::vector<Tensor> saved = inputs;
    saved.push_back(made[1]);
    return {
        .results = {made[0], final_state}, .saved = saved, .backward = backward, .zeros_for_missing = false};
  });
  return {outputs[0], outputs[1]};
}

void check_dtype(const Tensor& tensor, const Tensor& like, const char* argument) {
  if (tensor.scalar_type() != like.scalar_type() || tensor.device() != like.device()) {
    refuse_argument(kRecurrenceOp, argument, "dtype and device of q: " + shape_text(like),
                    shape_text(tensor));
  }
}

void check_gate(const RecurrenceProblem& problem) {
  const RecurrenceGate& gate = problem.gate();
  const Tensor& bound = gate.lower_bound_hk;
  const bool bounded = gate.kind == RecurrenceGate::Kind::kLowerBounded;
  if (!bounded && bound.defined())
    refuse_argument(kRecurrenceOp, "gate.lower_bound", "nothing, for another gate", shape_text(bound));
  if (!(gate.divisor > 0) || !std::isfinite(gate.divisor) ||
      (gate.divisor != 1 && gate.kind != RecurrenceGate::Kind::kLogSigmoid))
    refuse_argument(kRecurrenceOp, "gate.divisor", "above 0, and 1 but for log_sigmoid",
                    fmt::format("{}", gate.divisor));
  if (!problem.gated()) return;
  const int64_t tokens = problem.tokens(), heads = problem.heads(), key = problem.q_thk.size(2);
  if (problem.decay != DecayKind::kKeyToken && (bounded || problem.decay != DecayKind::kHeadToken)) {
    refuse_argument(kRecurrenceOp, "log_decay",
                    bounded ? fmt::format("logits [{}, {}, {}]", tokens, heads, key)
                            : fmt::format("logits [{0}, {1}] or [{0}, {1}, {2}]", tokens, heads, key),
                    shape_text(problem.log_decay));
  }
  if (!bounded) return;
  if (!bound.defined() || bound.sizes() != at::IntArrayRef({heads, key}) ||
      bound.scalar_type() != problem.state_type() || bound.device() != problem.q_thk.device()) {
    refuse_argument(kRecurrenceOp, "gate.lower_bound",
                    fmt::format("[{}, {}] {} on the device of q", heads, key, name_of(problem.state_type())),
                    shape_text(bound));
  }
}

}  // namespace

void check_state(const char* op, const char* name, const Tensor& state, const std::vector<int64_t>& expected,
                 const at::TensorOptions& like) {
  if (state.sizes() == at::IntArrayRef(expected) && state.scalar_type() == like.dtype().toScalarType() &&
      state.device() == like.device())
    return;
  refuse_argument(op, name,
                  fmt::format("[{}] {} on the device of q", fmt::join(expected, ", "),
                              name_of(like.dtype().toScalarType())),
                  shape_text(state));
}

void check_states(const char* op, const RecurrenceStates& states, int64_t documents,
                  const std::vector<int64_t>& sizes, const at::TensorOptions& like) {
  const int64_t sequences = states.state_shkv.dim() > 0 ? states.state_shkv.size(0) : 0;
  std::vector<int64_t> expected = sizes;
  expected.insert(expected.begin(), sequences);
  check_state(op, "states", states.state_shkv, expected, like);
  if (!states.state_shkv.is_contiguous())
    refuse_argument(op, "states", "contiguous", "strides of another order");
  std::vector<bool> named(static_cast<size_t>(sequences));
  for (const int64_t row : states.rows) {
    if (row < 0 || row >= sequences || named[static_cast<size_t>(row)])
      refuse_argument(op, "rows", fmt::format("different ones of {} sequences", sequences),
                      std::to_string(row));
    named[static_cast<size_t>(row)] = true;
  }
  if (static_cast<int64_t>(states.rows.size()) != documents)
    refuse_argument(op, "rows", fmt::format("{}, one for each document", documents),
                    std::to_string(states.rows.size()));
}

void refuse_rising_decay(double largest) {
  if (largest > cuda::kLargestLogDecay)
    refuse_argument(kRecurrenceOp, "log_decay", "0 or less", fmt::format("{}", largest));
}

RecurrenceProblem recurrence_problem(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& log_decay, const Tensor& initial_state,
                                     const Tensor& offsets, const LinearRecurrenceOptions& options) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()))
    refuse_argument(kRecurrenceOp, "q", "[tokens, heads, key channels], floating point", shape_text(q));
  const int64_t tokens = q.size(0), heads = q.size(1), key = q.size(2);
  if (v.dim() != 3 || v.size(0) != tokens || v.size(1) == 0 || heads % v.size(1) != 0) {
    refuse_argument(kRecurrenceOp, "v", fmt::format("[{}, a divisor of {}, value channels]", tokens, heads),
                    shape_text(v));
  }
  check_dtype(v, q, "v");
  if (options.tied_keys) {
    if (k.defined())
      refuse_argument(kRecurrenceOp, "k", "nothing, because keys are tied to the decay", shape_text(k));
    if (!log_decay.defined() || log_decay.dim() != 3) {
      refuse_argument(kRecurrenceOp, "log_decay",
                      fmt::format("[{}, {}, {}] for tied keys", tokens, heads, key), shape_text(log_decay));
    }
  } else {
    if (!k.defined() || k.dim() != 3 || k.size(0) != tokens || k.size(2) != key || k.size(1) != v.size(1)) {
      refuse_argument(kRecurrenceOp, "k", fmt::format("[{}, {} (as v), {}]", tokens, v.size(1), key),
                      shape_text(k));
    }
    check_dtype(k, q, "k");
  }
  if (options.block != 0 &&
      (options.block < 16 || options.block > 256 || (options.block & (options.block - 1)) != 0)) {
    refuse_argument(kRecurrenceOp, "block", "0 or a power of two from 16 to 256",
                    std::to_string(options.block));
  }
  RecurrenceProblem problem{q,
                            k,
                            v,
                            log_decay,
                            initial_state,
                            document_offsets(offsets, tokens, kRecurrenceOp),
                            DecayKind::kNone,
                            options};
  if (log_decay.defined()) {
    const auto sizes = log_decay.sizes();
    if (sizes == at::IntArrayRef({heads})) {
      problem.decay = DecayKind::kHead;
    } else if (sizes == at::IntArrayRef({tokens, heads})) {
      problem.decay = DecayKind::kHeadToken;
    } else if (sizes == at::IntArrayRef({tokens, heads, key})) {
      problem.decay = DecayKind::kKeyToken;
    } else {
      refuse_argument(kRecurrenceOp, "log_decay",
                      fmt::format("[{1}], [{0}, {1}] or [{0}, {1}, {2}]", tokens, heads, key),
                      shape_text(log_decay));
    }
    if (!at::isFloatingType(log_decay.scalar_type()) || log_decay.device() != q.device())
      refuse_argument(kRecurrenceOp, "log_decay", "floating point on the device of q: " + shape_text(q),
                      shape_text(log_decay));
  }
  check_gate(problem);
  if (initial_state.defined()) {
    check_state(kRecurrenceOp, "initial_state", initial_state, {problem.documents(), heads, key, v.size(2)},
                q.options().dtype(problem.state_type()));
  }
  return problem;
}

LinearRecurrenceResult linear_recurrence(const Tensor& q, const Tensor& k, const Tensor& v,
                                         const Tensor& log_decay, const Tensor& initial_state,
                                         const Tensor& offsets, const LinearRecurrenceOptions& options) {
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, initial_state, offsets, options);
  const RecurrenceBy by = choose_recurrence(problem);
  check_recurrence_values(problem, by);
  if (by == RecurrenceBy::kMeta) {
    const auto results =
        meta_results({q, k, v, log_decay, initial_state, options.gate.lower_bound_hk},
                     {{{q.size(0), q.size(1), v.size(2)}, v.scalar_type()},
                      {{problem.documents(), q.size(1), q.size(2), v.size(2)}, problem.state_type()}});
    return {results[0], results[1]};
  }
  if (by == RecurrenceBy::kAten) return linear_recurrence_aten(with_gate_made(with_recurrence_keys(problem)));
  return run(by == RecurrenceBy::kReference ? with_recurrence_keys(problem) : problem, by);
}

Tensor linear_recurrence_continued(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                                   const RecurrenceStates& states, const Tensor& offsets,
                                   const LinearRecurrenceOptions& given) {
  const at::NoGradGuard no_gradient;
  LinearRecurrenceOptions options = given;
  options.segment = kContinuedTokens;
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, Tensor(), offsets, options);
  check_states(kRecurrenceOp, states, problem.documents(), {problem.heads(), q.size(2), v.size(2)},
               q.options().dtype(problem.state_type()));
  if (const RecurrenceBy by = choose_recurrence(problem); by == RecurrenceBy::kCpu) {
    check_recurrence_values(problem, by);
    const Tensor o = recurrence_continue_cpu(problem, states);
    if (o.defined()) return o;
  }
  const Tensor rows = to_tensor(states.rows, q.device());
  const auto result =
      linear_recurrence(q, k, v, log_decay, states.state_shkv.index_select(0, rows), offsets, options);
  Tensor(states.state_shkv).index_copy_(0, rows, result.final_state_nhkv);
  return result.o_thd;
}

LinearRecurrenceResult linear_recurrence_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                                   const Tensor& log_decay, const Tensor& initial_state,
                                                   const Tensor& offsets,
                                                   const LinearRecurrenceOptions& options) {
  const RecurrenceProblem problem = recurrence_problem(q, k, v, log_decay, initial_state, offsets, options);
  check_recurrence_values(problem, RecurrenceBy::kReference);
  return run(with_recurrence_keys(problem), RecurrenceBy::kReference);
}

}  // namespace longhaul::kernels
