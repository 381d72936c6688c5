// Chooses the length of the segments of a CUDA form with a model of its time, of which nothing has been
// measured (bench/results/gpu.md has its figures and their sources). Unsplit, nothing is read twice, but
// only few blocks work on a head of a document, one chunk after the other. Split, more multiprocessors have
// work, or more work to switch to while they wait, but a first pass over all segments but the last of each
// document must find the states that enter them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/linear_recurrence/cuda/tiles.h"

namespace longhaul::kernels::cuda {

// A kernel of `blocks` blocks a segment (heads · slices). Clocks of a chunk: in a block that has a
// multiprocessor to itself, and in each of `resident` that share one.
struct Pass {
  int64_t blocks;
  int resident;
  double alone, full;
};

// A walk along segments, the first pass that finds the states which enter them, and bytes of these states
// that move for a segment.
struct Walk {
  Pass main, first;
  double state_bytes;
};

constexpr double kClocksOfTwoLaunches = 15000, kBytesPerClock = 2450;  // 4.3 TB/s at 1.755 GHz
constexpr int64_t kShortestSegment = 512, kMostSplits = 128, kUnsplit = INT32_MAX / 2;

// Of a chunk in each of the blocks of so many segments.
inline double clocks_of(const Pass& pass, double segments, int64_t multiprocessors) {
  const double blocks = std::ceil(segments * static_cast<double>(pass.blocks)),
               all = static_cast<double>(multiprocessors);
  return blocks <= all ? pass.alone : std::ceil(blocks / (all * pass.resident)) * pass.full;
}

inline double clocks_of(const Walk& walk, int64_t tokens, int64_t length, int64_t splits,
                        int64_t multiprocessors) {
  const double segments = static_cast<double>(tokens) / static_cast<double>(length),
               chunks = static_cast<double>(length) / kChunk;
  const double main = clocks_of(walk.main, segments, multiprocessors) * chunks;
  if (splits == 1) return main;
  const double early = segments * static_cast<double>(splits - 1) / static_cast<double>(splits);
  return main + clocks_of(walk.first, early, multiprocessors) * chunks +
         segments * walk.state_bytes / kBytesPerClock + kClocksOfTwoLaunches;
}

// For walks one after another over the same segments.
inline int64_t choose_segment_tokens(std::span<const int64_t> offsets, std::span<const Walk> walks,
                                     int64_t multiprocessors) {
  int64_t longest = 1;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) longest = std::max(longest, offsets[n + 1] - offsets[n]);
  int64_t best = kUnsplit;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t splits = 1; splits <= kMostSplits; ++splits) {
    const int64_t length = splits == 1 ? longest : round_up(divide_up(longest, splits), kChunk);
    if (splits > 1 && length < kShortestSegment) break;
    double clocks = 0;
    for (const Walk& walk : walks) clocks += clocks_of(walk, offsets.back(), length, splits, multiprocessors);
    if (clocks < least) {
      least = clocks;
      best = splits == 1 ? kUnsplit : length;
    }
  }
  return best;
}

// fp32: written, read and written by the scan, read
inline double moved_state_bytes(int64_t heads, int64_t keys, int64_t values) {
  return static_cast<double>(4 * 4 * heads * keys * values);
}

// A run of the chunked form.
inline Walk chunked_walk(int64_t heads, int64_t keys, int64_t values) {
  const int padded = padded_keys(static_cast<int>(keys)), resident = padded == 256 ? 1 : 2;
  const int64_t blocks = heads * divide_up(values, value_slice(padded));
  const double share = padded == 64 ? 0.5 : 1;
  return {{blocks, resident, 4000 * share, 5600 * share},
          {blocks, 2, 1600 * share, 2400 * share},
          moved_state_bytes(heads, keys, values)};
}

inline std::vector<Walk> chunked_walks(int64_t heads, int64_t keys, int64_t values, bool backward) {
  if (!backward) return {chunked_walk(heads, keys, values)};
  const Walk of_q = chunked_walk(heads, values, keys), of_v = chunked_walk(heads, keys, values);
  const int64_t width = std::max(keys, values);
  if (width > kJoinedWidth) return {of_q, of_q, of_v};
  const Pass joined = width <= 64 ? Pass{heads, 2, 3500, 5000} : Pass{heads, 1, 8000, 8000};
  return {of_q, {joined, of_v.first, of_v.state_bytes}};
}

inline std::vector<Walk> two_pass_walks(int64_t heads, int64_t keys, int64_t values) {
  const Pass states{heads * slices_of(static_cast<int>(keys)) * slices_of(static_cast<int>(values)), 2, 1500,
                    2000};
  return {{states, states, moved_state_bytes(heads, keys, values)}};
}

}  // namespace longhaul::kernels::cuda
