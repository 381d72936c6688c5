#include "parallel/context_recurrence.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/linear_recurrence/raw.h"
#include "parallel/context_states.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using kernels::BackwardCall;
using kernels::LinearRecurrenceOptions;
using kernels::Recorded;
using kernels::RecurrenceFold;
using kernels::RecurrenceGradients;
using kernels::RecurrenceInputs;

enum Operand : size_t { kQ, kK, kV, kDecay, kBound, kOperands };

// This rank's operands, and what it takes of them for one of its pieces.
struct Operands {
  std::vector<Tensor> of;
  LinearRecurrenceOptions options;

  int64_t heads() const { return of[kQ].size(1); }
  bool decay_by_token() const { return of[kDecay].defined() && of[kDecay].dim() > 1; }
  ScalarType state_type() const { return of[kQ].scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  std::vector<int64_t> state_sizes() const { return {heads(), of[kQ].size(2), of[kV].size(2)}; }

  // `length` tokens of this rank from `begin` on, cut into runs.
  RecurrenceInputs part(int64_t begin, int64_t length, const std::vector<int64_t>& offsets) const {
    const auto rows = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, length) : x; };
    RecurrenceInputs in{rows(of[kQ]), rows(of[kK]),       rows(of[kV]), decay_by_token() ? rows(of[kDecay]) : of[kDecay],
                        {},           to_tensor(offsets), options};
    in.options.gate.lower_bound_hk = of[kBound];
    return in;
  }
  // A piece that begins in `entering`, the state of its first run; undefined: zeros.
  RecurrenceInputs whole(const ContextPiece& piece, const Tensor& entering) const {
    RecurrenceInputs in = part(piece.local_begin, piece.tokens.length, piece.offsets);
    if (entering.defined()) in.initial_state_nhkv = states_of_runs(piece, 0, entering);
    return in;
  }
  Tensor states_of_runs(const ContextPiece& piece, int64_t run, const Tensor& state) const {
    std::vector<int64_t> sizes = state_sizes();
    sizes.insert(sizes.begin(), piece.runs());
    const Tensor states = at::zeros(sizes, of[kQ].options().dtype(state_type()).requires_grad(false));
    states.select(0, run).copy_(state);
    return states;
  }
};

ContextFold one_document(const RecurrenceFold& fold) { return {fold.state_nhkv.squeeze(0), fold.decay_nhk.squeeze(0)}; }

// What the last run of a piece leaves.
ContextFold fold_end(const Operands& operands, const ContextPiece& piece) {
  const int64_t begin = piece.offsets[piece.offsets.size() - 2], length = piece.tokens.length - begin;
  return one_document(kernels::fold_recurrence(operands.part(piece.local_begin + begin, length, {0, length}), operands.heads()));
}

// What the first run of a piece gives to the state that enters.
ContextFold fold_begin(const Operands& operands, const ContextPiece& piece, const Tensor& d_o) {
  const int64_t length = piece.offsets[1];
  return one_document(
      kernels::fold_recurrence_gradient(operands.part(piece.local_begin, length, {0, length}), d_o.narrow(0, piece.local_begin, length)));
}

StatePassing passing_of(recipe::LinearContextMethod method, comm::Communicator& group, const std::vector<ContextPiece>& pieces,
                        const Operands& operands) {
  return {method,
          group,
          pieces,
          {.sizes = operands.state_sizes(),
           .options = operands.of[kQ].options().dtype(operands.state_type()).requires_grad(false),
           .decay_by_token = operands.decay_by_token(),
           .log_decay_h = operands.of[kDecay]}};
}

// Of the pieces of this rank, in the order of its tokens, which is that of the row.
Tensor forward(const Operands& operands, const StatePassing& passing, std::vector<Tensor>& entering, std::vector<Tensor>& boundaries) {
  std::vector<Tensor> o;
  passing.run(
      /*backward=*/false, [&](const ContextPiece& piece) { return fold_end(operands, piece); },
      [&](const ContextPiece& piece, const Tensor& state) {
        const kernels::RecurrenceRun run = kernels::run_recurrence(operands.whole(piece, state));
        entering.push_back(state);
        boundaries.push_back(run.boundaries);
        o.push_back(run.result.o_thd);
      });
  if (o.empty()) return at::empty({0, operands.heads(), operands.of[kV].size(2)}, operands.of[kV].options().requires_grad(false));
  return o.size() == 1 ? o[0] : at::cat(o);
}

// Gradients of the operands, piece by piece into rows of the whole.
class Gradients {
 public:
  Gradients(const Operands& operands, bool decay) : operands_(operands), decay_(decay) {
    for (size_t i = 0; i < kOperands; ++i) {
      const bool wanted = operands.of[i].defined() && (i < kDecay || decay);
      sum_.push_back(wanted ? at::zeros(operands.of[i].sizes(), operands.of[i].options().requires_grad(false)) : Tensor());
    }
  }
  void add(const ContextPiece& piece, const RecurrenceGradients& part) {
    const auto rows = [&](size_t i) { return sum_[i].narrow(0, piece.local_begin, piece.tokens.length); };
    rows(kQ).copy_(part.q_thk);
    if (sum_[kK].defined()) rows(kK).copy_(part.k_thk);
    rows(kV).copy_(part.v_thv);
    if (!decay_) return;
    if (operands_.decay_by_token()) {
      rows(kDecay).copy_(part.log_decay);
    } else {
      sum_[kDecay].add_(part.log_decay);
    }
    if (sum_[kBound].defined()) sum_[kBound].add_(part.lower_bound_hk);
  }
  std::vector<Tensor> take() { return std::move(sum_); }

 private:
  const Operands& operands_;
  bool decay_;
  std::vector<Tensor> sum_;
};

std::vector<Tensor> backward(const Operands& operands, const StatePassing& passing, const std::vector<Tensor>& entering,
                             const std::vector<Tensor>& boundaries, const Tensor& d_o, bool decay) {
  Gradients gradients(operands, decay);
  size_t left = entering.size();  // pieces come last first
  passing.run(
      /*backward=*/true, [&](const ContextPiece& piece) { return fold_begin(operands, piece, d_o); },
      [&](const ContextPiece& piece, const Tensor& d_leaving) {
        --left;
        const Tensor d_final = d_leaving.defined() ? operands.states_of_runs(piece, piece.runs() - 1, d_leaving) : Tensor();
        gradients.add(piece, kernels::run_recurrence_backward(operands.whole(piece, entering[left]), boundaries[left],
                                                              d_o.narrow(0, piece.local_begin, piece.tokens.length), d_final, decay));
      });
  return gradients.take();
}

}  // namespace

Tensor context_recurrence(recipe::LinearContextMethod method, comm::Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& log_decay, const layout::SequenceView& view, const LinearRecurrenceOptions& options) {
  LONGHAUL_ASSERT(!options.reverse, "context ranks run documents from their first token to the last");
  const std::vector<Tensor> inputs{q, k, v, log_decay, options.gate.lower_bound_hk};
  LinearRecurrenceOptions plain = options;  // a closure that held an input would not notice that it was written to
  plain.gate.lower_bound_hk = Tensor();
  const auto wants = [](const Tensor& x) { return x.defined() && x.requires_grad(); };
  const bool decay = wants(log_decay) || wants(options.gate.lower_bound_hk);
  return kernels::differentiable("context_recurrence", inputs, [&]() -> Recorded {
    const Operands operands{inputs, plain};
    const std::vector<ContextPiece> pieces = context_pieces(view);
    std::vector<Tensor> entering, boundaries;
    const Tensor o = forward(operands, passing_of(method, group, pieces, operands), entering, boundaries);
    return {.results = {o},
            .saved = inputs,
            .backward = [method, &group, pieces, entering, boundaries, plain, decay](const BackwardCall& call) {
              const Operands saved{call.saved, plain};
              return backward(saved, passing_of(method, group, pieces, saved), entering, boundaries, call.gradients[0].contiguous(), decay);
            }};
  })[0];
}

}  // namespace longhaul::parallel
