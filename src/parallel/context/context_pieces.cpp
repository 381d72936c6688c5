#include "parallel/context/context_pieces.h"

#include <algorithm>

namespace longhaul::parallel {

using layout::Range;
using layout::SequenceView;

std::vector<ContextPiece> context_pieces(const SequenceView& view) {
  std::vector<ContextPiece> pieces;
  for (int64_t rank = 0; rank < view.share.context_ranks; ++rank) {
    int64_t local = 0;
    for (const Range& chunk :
         layout::context_chunks(view.layout.tokens(), view.share.context_ranks, rank, view.share.split)) {
      if (chunk.length > 0) pieces.push_back({.rank = rank, .tokens = chunk, .local_begin = local});
      local += chunk.length;
    }
  }
  std::ranges::sort(pieces, {}, [](const ContextPiece& piece) { return piece.tokens.begin; });
  for (ContextPiece& piece : pieces) {
    const int64_t begin = piece.tokens.begin;
    piece.follows = view.layout.document(view.layout.document_of(begin)).begin < begin;
    piece.offsets = {0};
    while (piece.offsets.back() < piece.tokens.length) {
      const Range document = view.layout.document(view.layout.document_of(begin + piece.offsets.back()));
      piece.offsets.push_back(std::min(document.end() - begin, piece.tokens.length));
    }
  }
  return pieces;
}

}  // namespace longhaul::parallel
