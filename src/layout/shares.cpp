#include "layout/shares.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::layout {
namespace {

// The end of a row that is nearest to an element; monotone, so shares do not cross.
int64_t nearest_row(std::span<const RowsInArena> tensors, int64_t element) {
  for (const RowsInArena& tensor : tensors) {
    if (element <= tensor.begin || element >= tensor.end()) continue;
    return tensor.begin + (element - tensor.begin + tensor.row / 2) / tensor.row * tensor.row;
  }
  return element;
}

}  // namespace

std::vector<Range> shares_of(std::span<const RowsInArena> tensors, int64_t elements, int64_t ranks) {
  LONGHAUL_ASSERT(ranks >= 1, "{} ranks", ranks);
  std::vector<Range> shares;
  int64_t begin = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t end =
        rank + 1 == ranks ? elements : nearest_row(tensors, even_part(elements, ranks, rank).end());
    shares.push_back({begin, end - begin});
    begin = end;
  }
  return shares;
}

}  // namespace longhaul::layout
