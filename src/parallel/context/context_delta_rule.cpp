#include "parallel/context/context_delta_rule.h"

#include <algorithm>

#include "base/error.h"
#include "parallel/context/context_carry.h"
#include "parallel/context/context_pieces.h"
#include "parallel/context/head_exchange.h"
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

Tensor delta_rule_of_heads(comm::Communicator& group, const kernels::DeltaRuleInputs& in,
                           const layout::SequenceView& view) {
  LONGHAUL_ASSERT(in.k_tgk.size(1) % group.size() == 0, "{} key heads over {} context ranks",
                  in.k_tgk.size(1), group.size());
  const HeadExchange heads(group, neighbours_of(view, context_pieces(view), 0, group.size()),
                           in.v_thv.device());
  const auto numbers = [&](const Tensor& x, const char* name) {
    return heads.to_heads(x.unsqueeze(2), name).squeeze(2);
  };
  kernels::DeltaRuleInputs own = in;
  own.q_tgk = heads.to_heads(in.q_tgk, "queries to heads");
  own.k_tgk = heads.to_heads(in.k_tgk, "keys to heads");
  own.v_thv = heads.to_heads(in.v_thv, "values to heads");
  own.beta_th = numbers(in.beta_th, "write strengths to heads");
  if (in.log_decay.defined()) {
    own.log_decay = in.log_decay.dim() == 3 ? heads.to_heads(in.log_decay, "decays to heads")
                                            : numbers(in.log_decay, "decays to heads");
  }
  own.offsets = to_tensor(view.layout.document_offsets);
  return heads.to_tokens(kernels::delta_rule(own).o_thd, "results to tokens");
}

}  // namespace

Tensor context_delta_rule(recipe::LinearContextMethod method, comm::Communicator& group,
                          const kernels::DeltaRuleInputs& in, const layout::SequenceView& view) {
  if (method == recipe::LinearContextMethod::kUlysses) return delta_rule_of_heads(group, in, view);
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
