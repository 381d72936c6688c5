// How the CUDA form of attention cuts its work: tiles of query tokens and tiles of key tokens, none across
// documents.
//
// Query p of a document (p counted in the document) sees keys [first, last): last = p + shift + 1 with shift
// = keys − queries, so the last query sees the last key, and first = last − window where there is a window.
// Integers for the host, the device and the tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

constexpr int kKeyRows = 64;  // keys of a step, and of a key tile

struct Range {
  int first, last;  // [first, last)
};

struct AttentionTile {
  int64_t begin;        // the first token of the tile
  int64_t other_begin;  // the first token of the document's keys (of a query tile) or queries (of a key tile)
  int32_t rows;         // tokens of the tile
  int32_t first;        // position in the document of the first of them
  int32_t others;       // keys, or queries, of the document
  int32_t shift;        // keys − queries of the document
};

LONGHAUL_HD int clamp_to(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

// Keys that the query at position p sees.
LONGHAUL_HD Range visible_keys(int p, int shift, int keys, int window) {
  const int last = clamp_to(p + shift + 1, 0, keys);
  return {window > 0 ? clamp_to(last - window, 0, keys) : 0, last};
}
// Queries that see the key at position s.
LONGHAUL_HD Range seeing_queries(int s, int shift, int queries, int window) {
  const int first = clamp_to(s - shift, 0, queries);
  return {first, window > 0 ? clamp_to(s - shift + window, first, queries) : queries};
}
// The keys that some query of the tile sees, and the queries that see some key of it.
LONGHAUL_HD Range keys_of_tile(const AttentionTile& tile, int window) {
  return {visible_keys(tile.first, tile.shift, tile.others, window).first,
          visible_keys(tile.first + tile.rows - 1, tile.shift, tile.others, window).last};
}
LONGHAUL_HD Range queries_of_tile(const AttentionTile& tile, int window) {
  return {seeing_queries(tile.first, tile.shift, tile.others, window).first,
          seeing_queries(tile.first + tile.rows - 1, tile.shift, tile.others, window).last};
}
// Whether every query of the tile sees all of the keys [first, first + kKeyRows): no mask is needed there.
LONGHAUL_HD bool all_visible(const AttentionTile& tile, int first_key, int window) {
  const Range of_first = visible_keys(tile.first, tile.shift, tile.others, window);
  const Range of_last = visible_keys(tile.first + tile.rows - 1, tile.shift, tile.others, window);
  return first_key >= of_last.first && first_key + kKeyRows <= of_first.last;
}

LONGHAUL_HD constexpr int padded_head(int keys, int values) {
  const int larger = keys > values ? keys : values;
  return larger <= 64 ? 64 : larger <= 128 ? 128 : 256;
}
LONGHAUL_HD constexpr int query_rows(int head) { return head <= 128 ? 128 : 64; }  // of a forward tile
constexpr int kBackwardRows = 64;
LONGHAUL_HD constexpr int backward_stages(int head) { return head <= 128 ? 2 : 1; }
LONGHAUL_HD constexpr int forward_shared_bytes(int head) {
  return (query_rows(head) + 4 * kKeyRows) * head * 2;
}
LONGHAUL_HD constexpr int backward_shared_bytes(int head) {
  return (2 + 2 * backward_stages(head)) * kBackwardRows * head * 2 + 2 * kBackwardRows * 4;
}

// Tiles of `rows` tokens. `offsets` are the documents of the tiles' own tokens, `other_offsets` those of the
// other side.
inline std::vector<AttentionTile> attention_tiles(std::span<const int64_t> offsets,
                                                  std::span<const int64_t> other_offsets, int rows,
                                                  bool of_keys) {
  std::vector<AttentionTile> tiles;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t length = offsets[n + 1] - offsets[n], others = other_offsets[n + 1] - other_offsets[n];
    for (int64_t first = 0; first < length; first += rows) {
      tiles.push_back({offsets[n] + first, other_offsets[n],
                       static_cast<int32_t>(std::min<int64_t>(rows, length - first)),
                       static_cast<int32_t>(first), static_cast<int32_t>(others),
                       static_cast<int32_t>(of_keys ? length - others : others - length)});
    }
  }
  return tiles;
}

// Decoding: the keys of a sequence are split into parts of this many, one block each.
constexpr int kDecodePart = 512;
constexpr int kDecodeKeys = 16;  // that a warp takes at once; a page holds a multiple of it

}  // namespace longhaul::kernels::cuda
