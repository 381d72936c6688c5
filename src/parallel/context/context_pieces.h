// ContextPieces: the packed row as the context ranks hold it, piece by piece: a rank has one (contiguous) or two (zig-zag), fewer of a row of
// few tokens. What crosses from piece to piece is one document's: the one that the last token of a piece and the first of the next belong to.
// All ranks know the whole list, so they agree on every message without asking. Plain data, in the order of the row.
#pragma once

#include <vector>

#include "layout/sequence_view.h"

namespace longhaul::parallel {

struct ContextPiece {
  int64_t rank = 0;
  layout::Range tokens;          // of the row; never empty
  int64_t local_begin = 0;       // its first token among those of its rank
  std::vector<int64_t> offsets;  // its runs of one document, [runs + 1], first 0
  bool follows = false;          // its first run goes on with the last document of the piece before

  int64_t runs() const { return static_cast<int64_t>(offsets.size()) - 1; }
  bool one_run() const { return runs() == 1; }  // then a state that enters leaves again
};

std::vector<ContextPiece> context_pieces(const layout::SequenceView& view);

}  // namespace longhaul::parallel
