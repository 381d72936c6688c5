#include "model/experts/router_sinkhorn.h"

#include "kernels/experts/sinkhorn.h"
#include "model/row_sharing.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

Tensor balanced_by_sinkhorn(const Tensor& logits, const layout::SequenceView& view, ParallelOps& ops) {
  const at::NoGradGuard no_gradient;
  const Parts parts = parts_of(sequence_lengths(view.layout), 1);
  const bool whole = sharing_of(view, parts).whole;
  if (view.layout.tokens() == 0) return logits.to(at::kDouble);
  const Tensor row = whole ? Tensor() : of_the_row(logits, view, ops);
  if (logits.is_meta()) return at::empty(logits.sizes(), logits.options().dtype(at::kDouble));

  const at::Device device = logits.device();
  const Tensor own_tokens = own_tokens_of(view, device), part = to_tensor(parts.of_token, device);
  const Tensor &judged = whole ? logits : row, part_t = whole ? part.index_select(0, own_tokens) : part;
  const Tensor result = at::empty(judged.sizes(), judged.options().dtype(at::kDouble));
  for (int64_t p = 0; p < std::ssize(parts.tokens); ++p) {
    const Tensor tokens = part_t.eq(p).nonzero().squeeze(1);
    if (tokens.numel() > 0) result.index_copy_(0, tokens, kernels::sinkhorn(judged.index_select(0, tokens)));
  }
  return whole ? result : result.index_select(0, own_tokens);
}

}  // namespace longhaul::model
