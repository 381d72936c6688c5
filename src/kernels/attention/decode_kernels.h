// Attention of one new token per sequence over paged keys and values: parts of the keys in parallel, then
// merged by their log-sum-exp.
#pragma once

#include "kernels/attention/cuda.h"
#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {

constexpr int kDecodeWarps = 4;

// A block takes a part of the keys of one sequence and head; its warps take keys in turn. Writes (largest,
// sum, weighted values).
LONGHAUL_KERNEL(kDecodeWarps* kWarp) decode_kernel(AttentionDecode in, float* partial, int parts) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);  // [warps][values + 2]
  const int part = static_cast<int>(blockIdx.x) % parts,
            head = static_cast<int>(blockIdx.x) / parts % in.heads;
  const int sequence = static_cast<int>(blockIdx.x) / parts / in.heads,
            key_head = head / (in.heads / in.key_heads), lane = lane_index();
  const Range range = visible_keys(in.lengths[sequence] - 1, 0, in.lengths[sequence], in.window);
  const int first = clamp_to(part * kDecodePart, range.first, range.last),
            last = clamp_to((part + 1) * kDecodePart, range.first, range.last);
  float q[8], acc[8] = {}, largest = negative_infinity(), sum = 0;
  LONGHAUL_UNROLL
  for (int e = 0; e < 8; ++e) {
    const int c = e * kWarp + lane;
    q[e] = c < in.keys ? to_float(in.q[(static_cast<int64_t>(sequence) * in.heads + head) * in.keys + c]) *
                             in.scale * kLog2E
                       : 0.f;
  }
  for (int key = first + warp_index(); key < last; key += kDecodeWarps) {
    const int64_t page = static_cast<int64_t>(sequence) * in.table_width + key / in.page,
                  row = static_cast<int64_t>(key_head) * in.page + key % in.page;
    const Bf16 *k = in.k_pages[page] + row * in.keys, *v = in.v_pages[page] + row * in.values;
    float score = 0;
    LONGHAUL_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int c = e * kWarp + lane;
      if (c < in.keys) score += q[e] * to_float(k[c]);
    }
    score = warp_sum(score);
    const float top = fmaxf(largest, score), shrink = power_of_two(largest - top),
                p = power_of_two(score - top);
    sum = sum * shrink + p;
    largest = top;
    LONGHAUL_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int c = e * kWarp + lane;
      if (c < in.values) acc[e] = acc[e] * shrink + p * to_float(v[c]);
    }
  }
  float* mine = scratch + warp_index() * (in.values + 2);
  LONGHAUL_UNROLL
  for (int e = 0; e < 8; ++e) {
    if (e * kWarp + lane < in.values) mine[2 + e * kWarp + lane] = acc[e];
  }
  if (lane == 0) mine[0] = largest, mine[1] = sum;
  __syncthreads();
  float* out = partial + static_cast<int64_t>(blockIdx.x) * (in.values + 2);
  float top = negative_infinity();
  for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, scratch[w * (in.values + 2)]);
  for (int i = static_cast<int>(threadIdx.x) + 1; i < in.values + 2; i += static_cast<int>(blockDim.x)) {
    float total = 0;
    for (int w = 0; w < kDecodeWarps; ++w) {
      const float* other = scratch + w * (in.values + 2);
      if (other[0] > negative_infinity()) total += power_of_two(other[0] - top) * other[i];
    }
    out[i] = total;
  }
  if (threadIdx.x == 0) out[0] = top;
}

// Adds the parts of a sequence and head up. A warp each.
LONGHAUL_KERNEL(128)
merge_kernel(AttentionDecode in, const float* partial, int parts, Bf16* o, float* logsumexp) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 4 + warp_index();
  if (row >= static_cast<int64_t>(in.sequences) * in.heads) return;
  const float* all = partial + row * parts * (in.values + 2);
  float top = negative_infinity(), sum = 0;
  for (int i = 0; i < parts; ++i) top = fmaxf(top, all[i * (in.values + 2)]);
  for (int i = 0; i < parts; ++i) {
    const float* part = all + i * (in.values + 2);
    if (part[0] > negative_infinity()) sum += power_of_two(part[0] - top) * part[1];
  }
  for (int c = lane_index(); c < in.values; c += kWarp) {
    float total = 0;
    for (int i = 0; i < parts; ++i) {
      const float* part = all + i * (in.values + 2);
      if (part[0] > negative_infinity()) total += power_of_two(part[0] - top) * part[2 + c];
    }
    o[row * in.values + c] = from_float<Bf16>(sum > 0 ? total / sum : 0.f);
  }
  if (lane_index() == 0) logsumexp[row] = sum > 0 ? top * kLn2 + logf(sum) : negative_infinity();
}

}  // namespace longhaul::kernels::cuda
