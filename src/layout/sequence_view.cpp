#include "layout/sequence_view.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::layout {
namespace {

// The sequence that a token of the row belongs to.
int64_t row_of(const SequenceLayout& layout, int64_t token) {
  const auto& offsets = layout.row_offsets;
  return std::upper_bound(offsets.begin(), offsets.end(), token) - offsets.begin() - 1;
}

std::vector<int64_t> row_offsets_of(const SequenceLayout& layout, std::span<const int64_t> token_index) {
  if (layout.row_offsets.size() < 2) return {0, static_cast<int64_t>(token_index.size())};
  std::vector<int64_t> offsets(layout.row_offsets.size());
  for (const int64_t token : token_index) ++offsets[static_cast<size_t>(row_of(layout, token)) + 1];
  for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  return offsets;
}

}  // namespace

SequenceView::SequenceView(SequenceLayout whole, const RowShare& of) : layout(std::move(whole)), share(of) {
  LONGHAUL_ASSERT(share.context_rank < share.context_ranks && share.tensor_rank < share.tensor_ranks,
                  "rank {} of {}, {} of {}", share.context_rank, share.context_ranks, share.tensor_rank,
                  share.tensor_ranks);
  token_index = local_tokens(layout.tokens(), share.context_ranks, share.context_rank, share.split);
  LocalSequence local = local_view(layout, share.context_ranks, share.context_rank, share.split);
  segments = std::move(local.segments);
  positions = std::move(local.positions);
  own = even_part(tokens(), share.tensor_ranks, share.tensor_rank);
  own_row_offsets = row_offsets_of(
      layout,
      std::span(token_index).subspan(static_cast<size_t>(own.begin), static_cast<size_t>(own.length)));
}

std::span<const int64_t> SequenceView::positions_of_axis(int64_t axis) const {
  LONGHAUL_ASSERT(axis >= 0 && axis < layout.position_axes, "axis {} of {}", axis, layout.position_axes);
  return std::span(positions).subspan(static_cast<size_t>(axis * tokens()), static_cast<size_t>(tokens()));
}

std::vector<int64_t> SequenceView::context_order() const {
  return split_permutation(layout.tokens(), share.context_ranks, share.split);
}

std::vector<int64_t> SequenceView::context_lengths() const {
  std::vector<int64_t> lengths;
  for (int64_t rank = 0; rank < share.context_ranks; ++rank) {
    int64_t length = 0;
    for (const Range& chunk : context_chunks(layout.tokens(), share.context_ranks, rank, share.split))
      length += chunk.length;
    lengths.push_back(length);
  }
  return lengths;
}

std::vector<int64_t> SequenceView::tensor_lengths() const {
  std::vector<int64_t> lengths;
  for (int64_t rank = 0; rank < share.tensor_ranks; ++rank)
    lengths.push_back(even_part(tokens(), share.tensor_ranks, rank).length);
  return lengths;
}

}  // namespace longhaul::layout
