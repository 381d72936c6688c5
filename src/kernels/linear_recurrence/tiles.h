// How the CUDA form of linear_recurrence cuts its work, as plain integers for the host, the device and the tests.
//
// Documents are cut into segments, segments into chunks of kChunk tokens; no chunk crosses a document. A run goes along the tokens
// or against them (reverse order, and the gradients of k and v). States between segments are found by a short scan, so the number of
// segments sets how many blocks work at once. An empty document is one segment of length 0: its final state is its initial one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

enum class DecayKind : int { kNone, kHead, kHeadToken, kChannelToken };

constexpr int kChunk = 64;

struct Segment {
  int64_t first;   // the token it begins with, in the order of the run
  int32_t length;  // tokens
  int32_t document;
  int32_t index;  // within its document, in the order of the run
  int32_t last;   // 1: the last of its document
};

LONGHAUL_HD int64_t token_at(const Segment& segment, int64_t i, bool against) { return against ? segment.first - i : segment.first + i; }
LONGHAUL_HD int chunks_of(const Segment& segment) { return static_cast<int>(divide_up(segment.length, kChunk)); }
LONGHAUL_HD int rows_of(const Segment& segment, int chunk) {
  const int left = segment.length - chunk * kChunk;
  return left < kChunk ? left : kChunk;
}

// One block of a kernel: a segment, or a chunk, of a head, and a slice of channels.
struct ChunkedBlock {
  int part, head, slice;
};
LONGHAUL_HD ChunkedBlock chunked_block(int64_t block, int heads, int slices) {
  return {static_cast<int>(block / slices / heads), static_cast<int>(block / slices % heads), static_cast<int>(block % slices)};
}

// The two-pass form keeps a table of its chunks, of all segments one after another; its kernels take slices of kSlice channels.
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
LONGHAUL_HD bool tiles_meet(int a, int b, int level) { return level >= 4 ? (a ^ b) >> (level - 4) == 1 : a == b; }
LONGHAUL_HD bool tokens_meet(int i, int j, int level) { return (i ^ j) >> level == 1; }

constexpr int kPadded = kSlice + 8;  // floats of a row of G, so that the eight rows of a fragment lie in different banks

// Shared memory in bytes from the start. The stages of do, v, S, D and what the levels need take turns.
struct GradientShared {
  int k, p, lambda, sums, dots, stage, rows, g, bytes;  // q stands at 0
};
LONGHAUL_HD constexpr GradientShared gradient_shared() {
  const int lambda = 3 * kTileBytes, sums = lambda + kChunk * kSlice * 4, dots = sums + 3 * 4 * kSlice * 4, stage = dots + 4 * kSlice * 4;
  const int rows = stage, g = rows + kTileBytes;
  return {kTileBytes, 2 * kTileBytes, lambda, sums, dots, stage, rows, g, stage + 8 * kTileBytes};
}

LONGHAUL_HD int value_slice(int padded_keys) { return padded_keys > 128 ? 32 : 64; }  // columns of the state a block holds in registers
LONGHAUL_HD int padded_keys(int keys) { return keys <= 64 ? 64 : keys <= 128 ? 128 : 256; }

// Shared memory of the chunked kernel, in bytes from the start: two stages of q, k, v; the state in bf16; sums of decays, factors.
struct ChunkedShared {
  int stage, k, v, state, sums, factors, total, bytes;
};
LONGHAUL_HD constexpr ChunkedShared chunked_shared(int keys, int slice) {
  const int rows = kChunk * keys * 2, values = kChunk * slice * 2, stage = 2 * rows + values;
  const int state = 2 * stage, sums = state + keys * slice * 2;
  return {stage, rows, 2 * rows, state, sums, sums + kChunk * 4, sums + 2 * kChunk * 4, sums + 2 * kChunk * 4 + 16};
}

// The same for the gradients of k and v together: two stages of q, k, v, do, all padded to kJoinedWidth, and the whole state.
constexpr int kJoinedWidth = 64;
struct JoinedShared {
  int stage, state, sums, factors, total, bytes;
};
LONGHAUL_HD constexpr JoinedShared joined_shared() {
  const int stage = 4 * kChunk * kJoinedWidth * 2, state = 2 * stage, sums = state + kJoinedWidth * kJoinedWidth * 2;
  return {stage, state, sums, sums + kChunk * 4, sums + 2 * kChunk * 4, sums + 2 * kChunk * 4 + 16};
}

// The exact form: a block holds 32 columns of the state, each warp 32 rows of them; it reads kExactBatch tokens at a time.
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

// Documents longer than `segment_tokens` become segments of nearly equal length, whole chunks but for the last.
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
      Segment segment{offsets[n] + done, static_cast<int32_t>(std::min(each, length - done)), static_cast<int32_t>(n),
                      static_cast<int32_t>(i), i + 1 == count};
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

// Segment length from a cost model. Unsplit, `blocks` = documents · heads · slices run at once and nothing is read twice; splitting
// re-reads k and v and moves two fp32 states per segment, which pays when whole documents leave multiprocessors without work.
inline int64_t choose_segment_tokens(int64_t tokens, int64_t documents, int64_t heads, int64_t slices, int64_t multiprocessors) {
  const int64_t blocks = std::max<int64_t>(1, documents * heads * slices);
  if (blocks * 10 >= multiprocessors * 9) return INT32_MAX / 2;           // unsplit
  const int64_t wanted = divide_up(2 * multiprocessors, heads * slices);  // two blocks for each
  return std::max<int64_t>(512, round_up(divide_up(tokens, std::max<int64_t>(wanted, 1)), kChunk));
}

}  // namespace longhaul::kernels::cuda
