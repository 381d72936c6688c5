// How the CUDA form of linear_recurrence cuts its work, as plain integers for the host, the device and the
// tests.
//
// Documents are cut into segments, segments into chunks of kChunk tokens; no chunk crosses a document. A run
// goes along the tokens or against them (reverse order, and the gradients of k and v). States between
// segments are found by a short scan, so the number of segments sets how many blocks work at once. An empty
// document is one segment of length 0: its final state is its initial one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

enum class DecayKind : int { kNone, kHead, kHeadToken, kChannelToken };

constexpr int kChunk = 64;

// λ ≤ 1 is what keeps every product of decays finite. Rounded gates and finite differences may step over it:
// over 256 tokens, the longest block of any form, this much makes 1.3. The host refuses more where it can
// look (op.cpp); on a GPU it would have to wait for it, so there the results of a larger one, or of a NaN,
// are NaN (run.h).
constexpr float kLargestLogDecay = 1e-3f;

struct Segment {
  int64_t first;   // the token it begins with, in the order of the run
  int32_t length;  // tokens
  int32_t document;
  int32_t index;  // within its document, in the order of the run
  int32_t last;   // 1: the last of its document
};

LONGHAUL_HD int64_t token_at(const Segment& segment, int64_t i, bool against) {
  return against ? segment.first - i : segment.first + i;
}
LONGHAUL_HD int chunks_of(const Segment& segment) {
  return static_cast<int>(divide_up(segment.length, kChunk));
}
LONGHAUL_HD int rows_of(const Segment& segment, int chunk) {
  const int left = segment.length - chunk * kChunk;
  return left < kChunk ? left : kChunk;
}

// One block of a kernel: a segment, or a chunk, of a head, and a slice of channels.
struct ChunkedBlock {
  int part, head, slice;
};
LONGHAUL_HD ChunkedBlock chunked_block(int64_t block, int heads, int slices) {
  return {static_cast<int>(block / slices / heads), static_cast<int>(block / slices % heads),
          static_cast<int>(block % slices)};
}

// The two-pass form keeps a table of its chunks, of all segments one after another; its kernels take slices
// of kSlice channels.
struct Chunk {
  int64_t first;  // its first token, in the order of the problem
  int32_t rows;
};
constexpr int kSlice = 64;
constexpr int kTileValues = kChunk * kSlice, kTileBytes = kTileValues * 2;

constexpr int kTwoPassThreads = 256;
constexpr int kQuarter = 16;  // tokens of a thread that walks down a channel
constexpr int kLevels = 6;

LONGHAUL_HD int slices_of(int width) { return static_cast<int>(divide_up(width, kSlice)); }

// Whether tokens of row tiles a and b (of 16 tokens) are partners at this level, all or some of them.
LONGHAUL_HD bool tiles_meet(int a, int b, int level) {
  return level >= 4 ? (a ^ b) >> (level - 4) == 1 : a == b;
}
LONGHAUL_HD bool tokens_meet(int i, int j, int level) { return (i ^ j) >> level == 1; }

// floats of a row of G, so that the eight rows of a fragment lie in different banks
constexpr int kPadded = kSlice + 8;

// Shared memory in bytes from the start. The stages of do, v, S, D and what the levels need take turns.
struct GradientShared {
  int k, p, lambda, sums, dots, stage, rows, g, bytes;  // q stands at 0
};
LONGHAUL_HD constexpr GradientShared gradient_shared() {
  const int lambda = 3 * kTileBytes, sums = lambda + kChunk * kSlice * 4, dots = sums + 3 * 4 * kSlice * 4,
            stage = dots + 4 * kSlice * 4;
  const int rows = stage, g = rows + kTileBytes;
  return {kTileBytes, 2 * kTileBytes, lambda, sums, dots, stage, rows, g, stage + 8 * kTileBytes};
}

// columns of the state a block holds in registers
LONGHAUL_HD int value_slice(int padded_keys) { return padded_keys > 128 ? 32 : 64; }
LONGHAUL_HD int padded_keys(int keys) { return keys <= 64 ? 64 : keys <= 128 ? 128 : 256; }

// Sums b of log-decays within a chunk, write · 2^(total − b), and their total. Two of them take turns.
struct ChunkDecays {
  float sums[kChunk], factors[kChunk], total, unused[3];
};

// Shared memory of the chunked kernel, in bytes from the start: two stages of q, k, v; the state in bf16;
// decays.
struct ChunkedShared {
  int stage, k, v, state, decays, bytes;
};
LONGHAUL_HD constexpr ChunkedShared chunked_shared(int keys, int slice) {
  const int rows = kChunk * keys * 2, values = kChunk * slice * 2, stage = 2 * rows + values;
  const int state = 2 * stage, decays = state + keys * slice * 2;
  return {stage, rows, 2 * rows, state, decays, decays + 2 * static_cast<int>(sizeof(ChunkDecays))};
}

// The same for the gradients of k and v together: two stages of q, k, v, do, all padded to `width`, and the
// whole state.
constexpr int kJoinedWidth = 128;  // at most; where it is 64 and less, a block has half the warps
struct JoinedShared {
  int stage, state, decays, bytes;
};
LONGHAUL_HD constexpr JoinedShared joined_shared(int width) {
  const int stage = 4 * kChunk * width * 2, state = 2 * stage, decays = state + width * width * 2;
  return {stage, state, decays, decays + 2 * static_cast<int>(sizeof(ChunkDecays))};
}

// Which 16 rows of a chunk's output a warp computes. Row tile r takes r + 1 products of scores with values,
// and warps w and w + 4 share a quarter of the multiprocessor: between them they have as many as any other
// two.
LONGHAUL_HD int row_tile(int warp) { return warp < 4 ? warp : 7 - warp; }

// The exact form: a block holds 32 columns of the state, each warp 32 rows of them; it reads kExactBatch
// tokens at a time.
constexpr int kExactBatch = 16;
LONGHAUL_HD int exact_warps(int keys) { return static_cast<int>(divide_up(keys, 32)); }
struct ExactShared {
  int k, decay, v, partial, bytes;  // q stands at 0
};
LONGHAUL_HD ExactShared exact_shared(int keys) {
  const int rows = exact_warps(keys) * 32, area = kExactBatch * rows * 4, line = kExactBatch * 32 * 4;
  return {area, 2 * area, 3 * area, 3 * area + line, 3 * area + line + exact_warps(keys) * line};
}

struct RecurrencePlan {
  std::vector<Segment> along, against;     // the same number, document by document
  std::vector<int32_t> document_segments;  // [N + 1]: where the segments of each document begin
};

// Documents longer than `segment_tokens` become segments of nearly equal length, whole chunks but for the
// last.
inline RecurrencePlan plan_recurrence(std::span<const int64_t> offsets, int64_t segment_tokens) {
  RecurrencePlan plan;
  plan.document_segments.push_back(0);
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t length = offsets[n + 1] - offsets[n];
    const int64_t wanted = std::max<int64_t>(1, divide_up(length, std::max<int64_t>(segment_tokens, kChunk)));
    const int64_t each = std::max<int64_t>(kChunk, round_up(divide_up(length, wanted), kChunk));
    const int64_t count = std::max<int64_t>(1, divide_up(length, each));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t done = i * each;
      Segment segment{offsets[n] + done, static_cast<int32_t>(std::min(each, length - done)),
                      static_cast<int32_t>(n), static_cast<int32_t>(i), i + 1 == count};
      plan.along.push_back(segment);
      segment.first = offsets[n + 1] - 1 - done;
      plan.against.push_back(segment);
    }
    plan.document_segments.push_back(static_cast<int32_t>(plan.along.size()));
  }
  return plan;
}

struct ChunkTable {
  std::vector<Chunk> chunks;
  std::vector<int32_t> segment_chunks;  // [segments + 1]: where the chunks of each segment begin
};
inline ChunkTable chunks_of(std::span<const Segment> segments, bool against) {
  ChunkTable table;
  for (const Segment& segment : segments) {
    table.segment_chunks.push_back(static_cast<int32_t>(table.chunks.size()));
    for (int c = 0; c < chunks_of(segment); ++c)
      table.chunks.push_back({token_at(segment, int64_t{c} * kChunk, against), rows_of(segment, c)});
  }
  table.segment_chunks.push_back(static_cast<int32_t>(table.chunks.size()));
  return table;
}

}  // namespace longhaul::kernels::cuda
