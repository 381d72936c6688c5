// Attention of one new token per sequence over paged keys and values. A block takes a part of the keys of one
// sequence and key head for all query heads that share it (16 at a time, the rows of a product on tensor
// cores), so keys and values are read once; then parts are merged by their log-sum-exp. How the keys are cut
// depends on their number alone, so a sequence gets the same result in any batch.
#pragma once

#include "kernels/attention/kernel_parts.h"

namespace longhaul::kernels::cuda {

constexpr int kDecodeWarps = 4, kDecodeHeads = 16;
LONGHAUL_HD constexpr int decode_stages(int head) { return head <= 128 ? 3 : 2; }
LONGHAUL_HD constexpr int decode_shared_bytes(int head) {
  return (kDecodeHeads + kDecodeWarps * decode_stages(head) * 2 * kDecodeKeys) * head * 2;
}

// The blocks that share the heads of a sequence: for each key head as many as its query heads need.
struct DecodeHeads {
  int group, chunks, blocks;
};
LONGHAUL_HD DecodeHeads decode_heads(const AttentionDecode& in) {
  const int group = in.heads / in.key_heads, chunks = static_cast<int>(divide_up(group, kDecodeHeads));
  return {group, chunks, in.key_heads * chunks};
}

// Rows [0, rows) of a tile from rows in a page; the others become zero. A warp loads its own tile.
template <int kHead>
LONGHAUL_DEVICE void load_decode_tile(Tile<kHead> tile, const Bf16* from, int width, int rows) {
  constexpr int kUnits = kHead / kUnit;
  const bool aligned = width % kUnit == 0 && is_aligned(from);
  for (int i = lane_index(); i < kDecodeKeys * kUnits; i += kWarp) {
    const int row = i / kUnits, col = i % kUnits * kUnit;
    const bool inside = row < rows && col < width;
    const Bf16* unit = inside ? from + row * width + col : from;
    Bf16* to = tile.at(row, col);
    if (aligned) {
      copy_async(to, unit, inside ? 16 : 0);
    } else {
      for (int j = 0; j < kUnit; ++j) to[j] = inside && col + j < width ? unit[j] : Bf16{0};
    }
  }
}

// Writes (largest, sum, weighted values) of each head. The warps of a block take 16 keys in turn, each with
// its own tiles, of which the next are under way.
template <int kHead>
LONGHAUL_KERNEL(kDecodeWarps* kWarp)
decode_kernel(AttentionDecode in, float* partial, int parts) {
  LONGHAUL_SHARED(shared);
  constexpr int kStages = decode_stages(kHead), kTile = kDecodeKeys * kHead, kRow = kHead + 2;
  const DecodeHeads split = decode_heads(in);
  const int part = static_cast<int>(blockIdx.x) % parts, block = static_cast<int>(blockIdx.x) / parts,
            sequence = block / split.blocks, key_head = block % split.blocks / split.chunks,
            first_row = block % split.chunks * kDecodeHeads, head = key_head * split.group + first_row,
            heads = split.group - first_row < kDecodeHeads ? split.group - first_row : kDecodeHeads;
  const int length = in.lengths[sequence];
  const Range range = visible_keys(length - 1, 0, length, in.window);
  const int first = clamp_to(part * kDecodePart, range.first, range.last),
            last = clamp_to((part + 1) * kDecodePart, range.first, range.last);
  const int first_tile = first / kDecodeKeys + warp_index(),
            tiles = last > first ? static_cast<int>(divide_up(last, kDecodeKeys)) - first_tile : 0,
            steps = tiles > 0 ? static_cast<int>(divide_up(tiles, kDecodeWarps)) : 0;
  const Tile<kHead> q{reinterpret_cast<Bf16*>(shared)};
  Bf16* own = q.data + kDecodeHeads * kHead + warp_index() * kStages * 2 * kTile;
  const auto k_tile = [&](int step) { return Tile<kHead>{own + step % kStages * 2 * kTile}; };
  const auto v_tile = [&](int step) { return Tile<kHead>{own + (step % kStages * 2 + 1) * kTile}; };
  const auto key_of = [&](int step) { return (first_tile + step * kDecodeWarps) * kDecodeKeys; };
  const auto load = [&](int step) {
    if (step < steps) {
      const int key = key_of(step), rows = last - key < kDecodeKeys ? last - key : kDecodeKeys;
      const int64_t page = static_cast<int64_t>(sequence) * in.table_width + key / in.page,
                    row = static_cast<int64_t>(key_head) * in.page + key % in.page;
      load_decode_tile(k_tile(step), in.k_pages[page] + row * in.keys, in.keys, rows);
      load_decode_tile(v_tile(step), in.v_pages[page] + row * in.values, in.values, rows);
    }
    end_copy_group();
  };
  const Bf16* queries = in.q + (static_cast<int64_t>(sequence) * in.heads + head) * in.keys;
  load_tile<kDecodeHeads>(q, queries, in.keys, heads, in.keys, in.keys % kUnit == 0 && is_aligned(queries));
  end_copy_group();
  for (int step = 0; step < kStages - 1; ++step) load(step);
  wait_for_copies<kStages - 1>();
  __syncthreads();

  float o[kHead / 8][4] = {}, largest[2] = {negative_infinity(), negative_infinity()}, sum[2] = {0, 0};
  for (int step = 0; step < steps; ++step) {
    load(step + kStages - 1);
    wait_for_copies<kStages - 1>();
    synchronize_warp();
    float s[kDecodeKeys / 8][4];
    multiply_rows(s, q, 0, k_tile(step));
    LONGHAUL_UNROLL
    for (int column = 0; column < kDecodeKeys / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int key = key_of(step) + column * 8 + c_place(lane_index(), i).col;
        s[column][i] = key >= first && key < last ? s[column][i] * in.scale * kLog2E : negative_infinity();
      }
    }
    softmax_step(s, largest, sum, o);
    multiply_columns(o, s, v_tile(step), 0);
    synchronize_warp();  // the tiles are about to be written over
  }
  wait_for_copies<0>();
  __syncthreads();

  float* sums =
      reinterpret_cast<float*>(q.data + kDecodeHeads * kHead);  // [warps, heads, kRow], over the tiles
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    sum[half] += shuffle_xor(sum[half], 1);
    sum[half] += shuffle_xor(sum[half], 2);
    float* row = sums + (warp_index() * kDecodeHeads + c_place(lane_index(), 2 * half).row) * kRow;
    if (lane_index() % 4 == 0) row[0] = largest[half], row[1] = sum[half];
    LONGHAUL_UNROLL
    for (int column = 0; column < kHead / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 2; ++i)
        row[2 + column * 8 + c_place(lane_index(), i).col] = o[column][2 * half + i];
    }
  }
  __syncthreads();
  const int width = in.values + 2;
  for (int i = static_cast<int>(threadIdx.x); i < heads * width; i += kDecodeWarps * kWarp) {
    const float* row = sums + i / width * kRow;
    float top = negative_infinity(), total = 0;
    for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, row[w * kDecodeHeads * kRow]);
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float* other = row + w * kDecodeHeads * kRow;
      if (other[0] > negative_infinity()) total += power_of_two(other[0] - top) * other[i % width];
    }
    const int64_t to = static_cast<int64_t>(sequence) * in.heads + head + i / width;
    partial[(to * parts + part) * width + i % width] = i % width == 0 ? top : total;
  }
}

constexpr int kMergeThreads = 256, kMergeParts = 64;

// Adds the parts of a sequence and head up. A thread takes one channel of the values.
LONGHAUL_KERNEL(kMergeThreads)
merge_kernel(AttentionDecode in, const float* partial, int parts, Bf16* o, float* logsumexp) {
  LONGHAUL_SHARED(shared);
  float *weights = reinterpret_cast<float*>(shared), *scratch = weights + kMergeParts;
  const int thread = static_cast<int>(threadIdx.x), width = in.values + 2;
  const int64_t row = blockIdx.x;
  const float* all = partial + row * parts * width;
  float top = negative_infinity(), sum = 0, total = 0;
  for (int i = thread; i < parts; i += kMergeThreads) top = fmaxf(top, all[static_cast<int64_t>(i) * width]);
  top = block_largest(top, scratch);
  for (int first = 0; first < parts; first += kMergeParts) {
    const int count = parts - first < kMergeParts ? parts - first : kMergeParts;
    const float* some = all + static_cast<int64_t>(first) * width;
    __syncthreads();  // the weights before these have been used
    for (int i = thread; i < count; i += kMergeThreads) {
      const float* part = some + static_cast<int64_t>(i) * width;
      weights[i] = part[0] > negative_infinity() ? power_of_two(part[0] - top) : 0.f;
      sum += weights[i] * part[1];
    }
    __syncthreads();
    if (thread >= in.values) continue;
    LONGHAUL_UNROLL_BY(8)
    for (int i = 0; i < count; ++i) total += weights[i] * some[static_cast<int64_t>(i) * width + 2 + thread];
  }
  sum = block_sum(sum, scratch);
  if (thread < in.values) o[row * in.values + thread] = from_float<Bf16>(sum > 0 ? total / sum : 0.f);
  if (thread == 0) logsumexp[row] = sum > 0 ? top * kLn2 + logf(sum) : negative_infinity();
}

}  // namespace longhaul::kernels::cuda
