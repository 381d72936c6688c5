// SequenceView: the tokens of a packed row on one rank. Two axes cut a row: the context ranks (contiguous,
// zig-zag or striped, for the whole layer) and, within each of them, the tensor ranks, but only between
// mixers (sequence parallelism: norms and residuals on a share of the tokens). Positions and labels are
// local; masks and states follow the documents of the whole row, which every rank knows. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/sequence.h"

namespace longhaul::layout {

// RowShare: which share of a row a rank has.
struct RowShare {
  int64_t context_ranks = 1, context_rank = 0;
  int64_t tensor_ranks = 1, tensor_rank = 0;
  ContextSplit split = ContextSplit::kZigzag;
  bool whole() const { return context_ranks == 1 && tensor_ranks == 1; }
};

struct SequenceView {
  SequenceView() = default;
  SequenceView(SequenceLayout whole,
               const RowShare& of = {});  // NOLINT: a layout is the view of the only rank

  SequenceLayout layout;  // of the whole row
  RowShare share;

  // Tokens of this context rank, which mixers see.
  int64_t tokens() const { return static_cast<int64_t>(token_index.size()); }
  std::vector<int64_t> token_index;  // index of each in the row
  std::vector<Segment> segments;     // their runs within one document
  std::vector<int64_t> positions;    // [position_axes, tokens]
  std::span<const int64_t> positions_of_axis(int64_t axis) const;

  // Tokens of this tensor rank among them, which norms, routers and the residual stream see.
  Range own;
  // [rows + 1] in `own`: which tokens belong to which sequence; a sequence may have none here.
  std::vector<int64_t> own_row_offsets;

  // The context ranks' tokens, rank by rank: element i is token order[i] of the row.
  std::vector<int64_t> context_order() const;
  std::vector<int64_t> context_lengths() const;  // tokens of each context rank
  std::vector<int64_t> tensor_lengths() const;   // of each tensor rank, among tokens()
};

}  // namespace longhaul::layout
