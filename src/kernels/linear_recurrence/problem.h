// The arguments that every implementation of linear_recurrence gets, checked, in one struct.
#pragma once

#include <vector>

#include "kernels/linear_recurrence/op.h"

namespace longhaul::kernels {

inline constexpr const char* kRecurrenceOp = "linear_recurrence";

enum class DecayKind { kNone, kHead, kHeadToken, kKeyToken };

struct RecurrenceProblem {
  // the last two may be undefined, and k with tied keys; of a gate the logits
  Tensor q_thk, k_thk, v_thv, log_decay, initial_state_nhkv;
  std::vector<int64_t> offsets;  // document boundaries
  DecayKind decay = DecayKind::kNone;
  LinearRecurrenceOptions options;

  const RecurrenceGate& gate() const { return options.gate; }
  bool gated() const { return options.gate.kind != RecurrenceGate::Kind::kNone; }
  int64_t tokens() const { return q_thk.size(0); }
  int64_t heads() const { return q_thk.size(1); }
  int64_t group() const { return q_thk.size(1) / v_thv.size(1); }  // query heads per key head
  int64_t documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  ScalarType state_type() const { return q_thk.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

struct RecurrenceGradients {
  Tensor q_thk, k_thk, v_thv, log_decay, initial_state_nhkv;  // log_decay only where it was asked for
  // of a gate's γ; with log_decay, where it was asked for
  Tensor lower_bound_hk;
};
enum class RecurrenceBy : size_t { kCuda, kCpu, kMeta, kAten, kReference };
// Whether backward is asked for a gradient of log_decay, or of a gate's logits or γ.
inline bool wants_decay(const RecurrenceProblem& problem) {
  const auto wants = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  return wants(problem.log_decay) || wants(problem.gate().lower_bound_hk);
}

RecurrenceProblem recurrence_problem(const Tensor& q_thk, const Tensor& k_thk, const Tensor& v_thv,
                                     const Tensor& log_decay, const Tensor& initial_state_nhkv,
                                     const Tensor& offsets, const LinearRecurrenceOptions& options);

// The choice of a call, the values it may not have, and the passes of one implementation (raw.cpp). kAten has
// a backward pass of its own by autograd; kMeta gives shapes. `boundaries` receives what backward reads;
// null: not wanted.
RecurrenceBy choose_recurrence(const RecurrenceProblem& problem);
void check_recurrence_values(const RecurrenceProblem& problem, RecurrenceBy by);
LinearRecurrenceResult recurrence_forward_by(RecurrenceBy by, const RecurrenceProblem& problem,
                                             Tensor* boundaries);
RecurrenceGradients recurrence_backward_by(RecurrenceBy by, const RecurrenceProblem& problem,
                                           const Tensor& d_o, const Tensor& d_final, const Tensor& boundaries,
                                           bool want_decay);
// Gives keys to implementations that want them: 1 − e^g (a gate makes its own), and v for each of them.
RecurrenceProblem with_recurrence_keys(RecurrenceProblem problem);

// Of an operator of this kind: states of the sequences that a call continues, of these sizes each.
void check_state(const char* op, const char* name, const Tensor& state, const std::vector<int64_t>& expected,
                 const at::TensorOptions& like);
void check_states(const char* op, const RecurrenceStates& states, int64_t documents,
                  const std::vector<int64_t>& sizes_hkv, const at::TensorOptions& like);
// an error where the largest log decay is above 0 (but for rounding: tiles.h)
void refuse_rising_decay(double largest);

// under autograd; keys not tied, no gate
LinearRecurrenceResult linear_recurrence_aten(const RecurrenceProblem& problem);

// Of whole documents from zero: what k and v write and its decay, or, `gradient`, what q and v (then the
// gradient of o) give to the state that enters. Keys not tied, no gate.
void recurrence_fold_aten(const RecurrenceProblem& problem, bool gradient, const Tensor& state_nhkv,
                          const Tensor& decay_nhk);
void recurrence_fold_reference(const RecurrenceProblem& problem, bool gradient, const Tensor& state_nhkv,
                               const Tensor& decay_nhk);

// The reference, forward and backward, outside autograd (cpu.h has the other for the CPU). Gradients come in
// the dtype of their inputs; an undefined d_final_state counts as zero. It takes tied keys of a gate, not of
// a given log_decay; with them k and v have the heads of q.
LinearRecurrenceResult recurrence_forward_reference(const RecurrenceProblem& problem);
RecurrenceGradients recurrence_backward_reference(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                                                  const Tensor& d_final_nhkv, bool want_decay);

}  // namespace longhaul::kernels
