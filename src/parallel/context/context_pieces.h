// ContextPieces: the packed row in the pieces that context ranks hold: a rank has one piece (contiguous) or
// two (zig-zag), and fewer when a row has few tokens. A state crosses from one piece to the next only within
// a document that contains the last token of one and the first token of the other. All ranks know the whole
// list, so they agree on every message without communication. Plain data, in the order of the row.
#pragma once

#include <vector>

#include "layout/sequence_view.h"

namespace longhaul::parallel {

struct ContextPiece {
  int64_t rank = 0;
  layout::Range tokens;          // the tokens of the row; never empty
  int64_t local_begin = 0;       // the index of its first token among those of its rank
  std::vector<int64_t> offsets;  // its runs of one document, [runs + 1], first 0
  bool follows = false;          // its first run continues the last document of the previous piece

  int64_t runs() const { return static_cast<int64_t>(offsets.size()) - 1; }
  bool one_run() const { return runs() == 1; }  // true: a state that enters the piece also leaves it
};

std::vector<ContextPiece> context_pieces(const layout::SequenceView& view);

}  // namespace longhaul::parallel
