// Code that the forward and the backward pass on the CPU share: products and vector code by element type,
// and the work list.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/threads/parallel.h"
#include "kernels/attention/cpu.h"
#include "kernels/attention/vectors.h"
#include "kernels/gemm/block.h"

namespace longhaul::kernels {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

// What the queries of a tile from `query` on see of its rows, keys of the document from `key` on: all before
// the end of the prefix or all behind.
inline void set_visible(Tile& tile, const Visibility& visible, const AttentionDocument& document, int64_t key,
                        int64_t query) {
  const int64_t diagonal = key - document.shift - query;  // row r is at the position of column r + diagonal
  const bool in_prefix = key < document.prefix;
  tile.first = in_prefix            ? -kNoLimit
               : visible.causal     ? diagonal
               : visible.window > 0 ? diagonal - visible.window + 1
                                    : -kNoLimit;
  tile.last = in_prefix || visible.window == 0 ? kNoLimit : diagonal + visible.window;
}

// The end of the key block that begins at `key`: on the grid, at `last`, or at the end of the prefix.
inline int64_t block_end(const AttentionDocument& document, int64_t key, int64_t last) {
  const int64_t end = std::min(key / kKeyBlock * kKeyBlock + kKeyBlock, last);
  return key < document.prefix ? std::min(end, document.prefix) : end;
}

// How many rows of a block of keys [key, end), counted from the first, some query of the tile's [query,
// query_end) may see: 0 means none.
inline int64_t rows_to_see(const Visibility& visible, const AttentionDocument& document, int64_t query,
                           int64_t query_end, int64_t key, int64_t end) {
  if (key < document.prefix) return end - key;
  if (visible.near(document, query).first >= end) return 0;
  return std::max<int64_t>(0, std::min(end, visible.near(document, query_end - 1).last) - key);
}

// BlockKernels, and the functions of AttentionVectors by element type.
class Tools {
 public:
  const BlockScope block;

  void softmax(const SoftmaxTile& tile, uint16_t* panels) const { vectors_.softmax_bf16(tile, panels); }
  void softmax(const SoftmaxTile& tile, float* panels) const { vectors_.softmax_fp32(tile, panels); }
  void gradient(const GradientTile& tile, uint16_t* p, uint16_t* ds, uint16_t* panels) const {
    vectors_.gradient_bf16(tile, p, ds, panels);
  }
  void gradient(const GradientTile& tile, float* p, float* ds, float* panels) const {
    vectors_.gradient_fp32(tile, p, ds, panels);
  }
  void leave(const float* in, int64_t stride, int64_t rows, int64_t columns, const float* factors,
             uint16_t* out, int64_t out_stride) const {
    vectors_.leave_bf16(in, stride, rows, columns, factors, out, out_stride);
  }
  void leave(const float* in, int64_t stride, int64_t rows, int64_t columns, const float* factors, float* out,
             int64_t out_stride) const {
    vectors_.leave_fp32(in, stride, rows, columns, factors, out, out_stride);
  }
  void scale_rows(const float* in, int64_t rows, int64_t columns, float factor, uint16_t* out,
                  int64_t out_stride) const {
    vectors_.scale_rows_bf16(in, rows, columns, factor, out, out_stride);
  }
  void scale_rows(const float* in, int64_t rows, int64_t columns, float factor, float* out,
                  int64_t out_stride) const {
    vectors_.scale_rows_fp32(in, rows, columns, factor, out, out_stride);
  }
  void row_dots(const uint16_t* a, int64_t lda, const uint16_t* b, int64_t ldb, int64_t rows, int64_t columns,
                float* out) const {
    vectors_.row_dots_bf16(a, lda, b, ldb, rows, columns, out);
  }
  void row_dots(const float* a, int64_t lda, const float* b, int64_t ldb, int64_t rows, int64_t columns,
                float* out) const {
    vectors_.row_dots_fp32(a, lda, b, ldb, rows, columns, out);
  }
  void widen(const uint16_t* from, int64_t count, float* to) const { vectors_.widen_bf16(from, count, to); }
  void widen(const float* from, int64_t count, float* to) const { std::copy_n(from, count, to); }
  void decode(const DecodeRow<uint16_t>& row) const { vectors_.decode_bf16(row); }
  void decode(const DecodeRow<float>& row) const { vectors_.decode_fp32(row); }

 private:
  const AttentionVectors& vectors_ = attention_vectors();
};

// One parallel region: threads take items in order until none is left. `start` runs once on each thread and
// gives the body.
template <class Start>
void for_each_item(int64_t items, const Start& start) {
  parallel_items(items, threads(), [&](const auto& each) {
    const Tools tools;
    each(start(tools));
  });
}

}  // namespace longhaul::kernels
