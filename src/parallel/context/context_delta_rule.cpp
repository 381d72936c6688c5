#include "parallel/context/context_delta_rule.h"

#include <algorithm>

#include "parallel/context/context_carry.h"
#include "parallel/context/context_pieces.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

// From [0 | 1] with values [v | 0].
kernels::LinearRecurrenceResult run_extended(const kernels::DeltaRuleInputs& in, const ContextPiece& piece) {
  const auto rows = [&](const Tensor& x) {
    return x.defined() ? x.narrow(0, piece.local_begin, piece.tokens.length) : x;
  };
  const Tensor v = rows(in.v_thv);
  const int64_t heads = v.size(1), keys = in.k_tgk.size(2);
  const auto wide =
      v.options().dtype(v.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).requires_grad(false);
  const Tensor state = at::zeros({piece.runs(), heads, keys, v.size(2) + keys}, wide);
  state.narrow(3, v.size(2), keys).copy_(at::eye(keys, wide));
  return kernels::delta_rule(
      {.q_tgk = rows(in.q_tgk),
       .k_tgk = rows(in.k_tgk),
       .v_thv = at::cat({v, at::zeros({v.size(0), heads, keys}, v.options().requires_grad(false))}, 2),
       .beta_th = rows(in.beta_th),
       .log_decay = rows(in.log_decay),
       .initial_state_nhkv = state,
       .offsets = to_tensor(piece.offsets),
       .scale = in.scale});
}

// o⁰ + Q̃ S_in in the first run of a piece.
Tensor with_entering(const Tensor& extended, const ContextPiece& piece, const Tensor& entering,
                     int64_t values) {
  const Tensor o = extended.narrow(2, 0, values);
  if (!entering.defined()) return o;
  const int64_t first = piece.offsets[1], keys = extended.size(2) - values;
  const Tensor reads =
      extended.narrow(0, 0, first).narrow(2, values, keys).to(entering.scalar_type()).transpose(0, 1);
  const Tensor more = at::matmul(reads, entering).transpose(0, 1);
  return at::cat({o.narrow(0, 0, first).to(more.scalar_type()).add(more).to(o.scalar_type()),
                  o.narrow(0, first, o.size(0) - first)});
}

}  // namespace

Tensor context_delta_rule(comm::Communicator& group, const kernels::DeltaRuleInputs& in,
                          const layout::SequenceView& view) {
  const int64_t heads = in.v_thv.size(1), values = in.v_thv.size(2), keys = in.k_tgk.size(2);
  const std::vector<ContextPiece> pieces = context_pieces(view);
  std::vector<kernels::LinearRecurrenceResult> own;
  for (const ContextPiece& piece : pieces) {
    if (piece.rank == group.rank()) own.push_back(run_extended(in, piece));
  }
  // No rows, with the way back of an input: a rank without tokens meets the others in the backward pass too.
  const Tensor none = in.v_thv.narrow(0, 0, 0)
                          .to(in.v_thv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                          .reshape({0, heads, keys, values + keys});
  size_t next = 0;
  const GatheredRows folds = gather_of_pieces(
      group, pieces, [](const ContextPiece&) { return int64_t{1}; },
      [&](const ContextPiece& piece) { return own[next++].final_state_nhkv.narrow(0, piece.runs() - 1, 1); },
      none, "states of the delta rule", /*again=*/true);

  Tensor entering;  // [H, Dk, Dv]; undefined: nothing enters
  std::vector<std::pair<int64_t, Tensor>> parts;
  next = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const ContextPiece& piece = pieces[i];
    if (!piece.follows) entering = Tensor();
    if (piece.rank == group.rank())
      parts.emplace_back(piece.local_begin, with_entering(own[next++].o_thd, piece, entering, values));
    const Tensor fold = folds.of_piece[i].squeeze(0), written = fold.narrow(2, 0, values);
    const bool through = entering.defined() && piece.one_run();
    entering = through ? at::matmul(fold.narrow(2, values, keys), entering).add(written) : written;
  }
  std::ranges::sort(parts, {}, &std::pair<int64_t, Tensor>::first);
  std::vector<Tensor> o{in.v_thv.narrow(0, 0, 0)};
  for (const auto& [begin, rows] : parts) o.push_back(rows);
  return joined_with(at::cat(o), folds);
}

}  // namespace longhaul::parallel
