#include "data/order/whole_packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace longhaul::data {
namespace {

struct SizedPiece {
  WholePiece piece;
  int64_t length;
};

std::vector<SizedPiece> longest_first(std::span<const int64_t> labels, std::span<const int64_t> order,
                                      int64_t sequence) {
  std::vector<SizedPiece> pieces;
  for (const int64_t document : order) {
    const int64_t all = labels[static_cast<size_t>(document)];
    for (int64_t start = 0; start < all; start += sequence)
      pieces.push_back({{document, start}, std::min(sequence, all - start)});
  }
  std::ranges::stable_sort(pieces, std::ranges::greater(), &SizedPiece::length);
  return pieces;
}

// The row of each piece, and how many rows there are.
std::pair<std::vector<int64_t>, int64_t> rows_of_pieces(const std::vector<SizedPiece>& pieces,
                                                        int64_t sequence) {
  std::map<int64_t, std::vector<int64_t>> rows_with_room;  // by what is left of them
  std::vector<int64_t> row_of;
  int64_t rows = 0;
  for (const SizedPiece& piece : pieces) {
    int64_t row = rows, left = sequence - piece.length;
    if (const auto fullest = rows_with_room.lower_bound(piece.length); fullest != rows_with_room.end()) {
      row = fullest->second.back();
      left = fullest->first - piece.length;
      fullest->second.pop_back();
      if (fullest->second.empty()) rows_with_room.erase(fullest);
    } else {
      ++rows;
    }
    if (left > 0) rows_with_room[left].push_back(row);
    row_of.push_back(row);
  }
  return {std::move(row_of), rows};
}

}  // namespace

WholeRows pack_whole(std::span<const int64_t> labels, std::span<const int64_t> order, int64_t sequence) {
  const std::vector<SizedPiece> pieces = longest_first(labels, order, sequence);
  const auto [row_of, rows] = rows_of_pieces(pieces, sequence);
  WholeRows packed{.pieces = std::vector<WholePiece>(pieces.size()),
                   .ends = std::vector<int64_t>(static_cast<size_t>(rows))};
  for (const int64_t row : row_of) ++packed.ends[static_cast<size_t>(row)];
  std::partial_sum(packed.ends.begin(), packed.ends.end(), packed.ends.begin());
  std::vector<int64_t> next(static_cast<size_t>(rows));
  std::copy_n(packed.ends.begin(), rows > 0 ? rows - 1 : 0, next.begin() + (rows > 0 ? 1 : 0));
  for (size_t p = 0; p < pieces.size(); ++p) {
    const auto row = static_cast<size_t>(row_of[p]);
    packed.pieces[static_cast<size_t>(next[row]++)] = pieces[p].piece;
  }
  return packed;
}

int64_t count_whole_rows(std::span<const int64_t> labels, int64_t sequence) {
  std::vector<int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  return rows_of_pieces(longest_first(labels, order, sequence), sequence).second;
}

}  // namespace longhaul::data
