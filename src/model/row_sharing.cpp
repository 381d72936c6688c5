#include "model/row_sharing.h"

#include <algorithm>

#include "layout/split.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

std::vector<int64_t> sequence_lengths(const layout::SequenceLayout& layout) {
  if (layout.row_offsets.size() < 2) return {layout.tokens()};
  std::vector<int64_t> lengths;
  for (size_t s = 1; s < layout.row_offsets.size(); ++s)
    lengths.push_back(layout.row_offsets[s] - layout.row_offsets[s - 1]);
  return lengths;
}

Parts parts_of(const std::vector<int64_t>& sequences, int64_t cuts) {
  Parts parts;
  for (const int64_t length : sequences) {
    const int64_t count = std::clamp<int64_t>(cuts, 1, std::max<int64_t>(1, length));
    for (int64_t p = 0; p < count; ++p) {
      const int64_t tokens = layout::even_part(length, count, p).length;
      parts.of_token.insert(parts.of_token.end(), static_cast<size_t>(tokens), std::ssize(parts.tokens));
      parts.tokens.push_back(tokens);
    }
  }
  return parts;
}

Sharing sharing_of(const layout::SequenceView& view, const Parts& parts) {
  Sharing sharing;
  const std::vector<int64_t> order = view.context_order();
  size_t at = 0;
  for (const int64_t length : view.context_lengths()) {
    for (int64_t t = 0; t < view.share.tensor_ranks; ++t) {
      auto& of_rank = sharing.tokens.emplace_back();
      auto last = of_rank.end();
      for (int64_t i = layout::even_part(length, view.share.tensor_ranks, t).length; i > 0; --i) {
        const int64_t part = parts.of_token[static_cast<size_t>(order[at++])];
        if (last == of_rank.end() || last->first != part) last = of_rank.emplace(part, 0).first;
        ++last->second;
      }
      for (const auto& [part, tokens] : of_rank)
        sharing.whole = sharing.whole && tokens == parts.tokens[static_cast<size_t>(part)];
    }
  }
  return sharing;
}

Tensor own_tokens_of(const layout::SequenceView& view, at::Device device) {
  const auto own = std::span(view.token_index)
                       .subspan(static_cast<size_t>(view.own.begin), static_cast<size_t>(view.own.length));
  return to_tensor(std::vector<int64_t>(own.begin(), own.end()), device);
}

Tensor of_the_row(const Tensor& x, const layout::SequenceView& view, ParallelOps& ops) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = view.layout.tokens();
  const auto options = x.options().dtype(at::kDouble).requires_grad(false);
  if (x.is_meta()) return ops.sum_statistics(at::empty(sizes, options));
  return ops.sum_statistics(
      at::zeros(sizes, options).index_copy_(0, own_tokens_of(view, x.device()), x.detach().to(at::kDouble)));
}

}  // namespace longhaul::model
