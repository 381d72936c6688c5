// Packing of whole documents (ShardIdentity::whole): each is put into one row, and rows are filled by
// best-fit decreasing: the longest document first, into the fullest row that has room for it. A document that
// is longer than a row is cut into rows, and its rest is packed like a document. Documents of equal length
// are taken in the order that is given, so the number of rows does not depend on it. Time: n log n.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::data {

struct WholePiece {
  int64_t document = 0;
  int64_t start = 0;  // first input of the piece, which ends with its document or fills a row
  bool operator==(const WholePiece&) const = default;
};

struct WholeRows {
  std::vector<WholePiece> pieces;  // of all rows, row by row
  std::vector<int64_t> ends;       // by row: pieces up to its end
};

// labels: the inputs of each document; those without any are in no row. order: a permutation of the
// documents.
WholeRows pack_whole(std::span<const int64_t> labels, std::span<const int64_t> order, int64_t sequence);
int64_t count_whole_rows(std::span<const int64_t> labels, int64_t sequence);

}  // namespace longhaul::data
