#include "kernels/embedding/cuda.h"

#include "kernels/cuda/elements.h"

namespace longhaul::kernels::cuda {
namespace {

LONGHAUL_KERNEL(256)
forward_kernel(const int64_t* ids, const Bf16* table, const int64_t* positions, const Bf16* position_table,
               Bf16* out, int64_t tokens, int64_t hidden) {
  const int64_t units = divide_up(hidden, kUnit),
                index = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (index >= tokens * units) return;
  const int64_t token = index / units, c = index % units * kUnit;
  Eight row = load_eight(table + ids[token] * hidden + c, hidden - c);
  if (position_table != nullptr) {
    const Eight other = load_eight(position_table + positions[token] * hidden + c, hidden - c);
    LONGHAUL_UNROLL
    for (int i = 0; i < kUnit; ++i) row.x[i] += other.x[i];
  }
  store_eight(out + token * hidden + c, hidden - c, row);
}

constexpr int kWindowThreads = 128, kMergeWarps = 8, kMergeWindows = 8;
constexpr int kAtOnce = 4;  // rows that are loaded together

// The rows of a window that have the same id are a run; a run may go on in other windows, in which case its
// sum goes to the window's place in the workspace: 0 if it began in an earlier one, else 1.
LONGHAUL_KERNEL(kWindowThreads)
gradient_kernel(EmbeddingGradient in) {
  LONGHAUL_SHARED(shared);
  int64_t* order = reinterpret_cast<int64_t*>(shared);                      // [window]
  int32_t* ids = reinterpret_cast<int32_t*>(order + kEmbeddingWindow) + 1;  // [−1 … window]
  const int64_t blocks = divide_up(in.hidden, kWindowThreads * kUnit), window = blockIdx.x / blocks,
                first = window * kEmbeddingWindow, left_tokens = in.tokens - first;
  const int count = left_tokens < kEmbeddingWindow ? static_cast<int>(left_tokens) : kEmbeddingWindow,
            thread = static_cast<int>(threadIdx.x);
  if (thread < count) order[thread] = in.order[first + thread];
  if (thread < count + 2) {
    const int64_t at = first + thread - 1;
    ids[thread - 1] = at >= 0 && at < in.tokens ? in.ids[at] : -1;  // no id is −1
  }
  __syncthreads();
  const int64_t c = (blockIdx.x % blocks * kWindowThreads + thread) * kUnit, left = in.hidden - c;
  if (left <= 0) return;
  const auto ends = [&](int i) { return i == count - 1 || ids[i + 1] != ids[i]; };
  const auto sink_of = [&](int i) { return in.sink + static_cast<int64_t>(ids[i]) * in.hidden + c; };
  Eight sum{};
  int begin = 0;  // of the run
  for (int base = 0; base < count; base += kAtOnce) {
    Unit row[kAtOnce];
    Eight old[kAtOnce];
    bool whole[kAtOnce];  // whether a run ends here that lies in this window as a whole
    LONGHAUL_UNROLL
    for (int k = 0, start = begin; k < kAtOnce; ++k) {
      const int i = base + k;
      if (i >= count) continue;
      row[k] = load_unit(in.d_out + order[i] * in.hidden + c, left);
      whole[k] = ends(i) && ids[start - 1] != ids[i] && ids[i + 1] != ids[i];
      if (whole[k]) old[k] = load_eight(sink_of(i), left);
      if (ends(i)) start = i + 1;
    }
    LONGHAUL_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = base + k;
      if (i >= count) continue;
      const Eight g = widened(row[k]);
      LONGHAUL_UNROLL
      for (int j = 0; j < kUnit; ++j) sum.x[j] += g.x[j];
      if (!ends(i)) continue;
      if (whole[k]) {
        LONGHAUL_UNROLL
        for (int j = 0; j < kUnit; ++j) old[k].x[j] += sum.x[j];
        store_eight(sink_of(i), left, old[k]);
      } else {
        const int place = ids[begin - 1] == ids[i] ? 0 : 1;
        store_eight(static_cast<float*>(in.workspace) + (2 * window + place) * in.hidden + c, left, sum);
      }
      sum = {};
      begin = i + 1;
    }
  }
}

// The last window that holds `id`, of which `from` is a token.
LONGHAUL_DEVICE int64_t last_window(const EmbeddingGradient& in, int32_t id, int64_t from) {
  int64_t low = from, high = in.tokens;  // ids[low] is id, ids[high] is not
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (in.ids[middle] == id ? low : high) = middle;
  }
  return low / kEmbeddingWindow;
}

// Adds up the runs that begin in one of a few windows and end in a later one. The warps of a block take the
// windows of a run in turn; their sums are added in the order of the warps.
LONGHAUL_KERNEL(kMergeWarps* kWarp)
merge_kernel(EmbeddingGradient in) {
  LONGHAUL_SHARED(shared);
  FloatUnit* sums = reinterpret_cast<FloatUnit*>(shared);  // [warps, 32]
  const int64_t columns = kWarp * 4, blocks = divide_up(in.hidden, columns),
                windows = divide_up(in.tokens, kEmbeddingWindow),
                c = blockIdx.x % blocks * columns + lane_index() * 4;
  const auto add = [&](FloatUnit& to, const float* from) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) to.x[i] += c + i < in.hidden ? from[c + i] : 0.f;
  };
  const float* partial = static_cast<const float*>(in.workspace);
  for (int w = 0; w < kMergeWindows; ++w) {
    const int64_t window = blockIdx.x / blocks * kMergeWindows + w, first = window * kEmbeddingWindow,
                  next = first + kEmbeddingWindow;
    if (window + 1 >= windows) return;
    const int32_t id = in.ids[next - 1];
    if (in.ids[next] != id || (first > 0 && in.ids[first - 1] == id)) continue;
    const int64_t last = last_window(in, id, next);
    FloatUnit sum{};
    LONGHAUL_UNROLL_BY(4)
    for (int64_t other = window + 1 + warp_index(); other <= last; other += kMergeWarps)
      add(sum, partial + 2 * other * in.hidden);
    __syncthreads();  // the sums of the run before have been read
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (warp_index() > 0) continue;
    sum = {};
    add(sum, partial + (2 * window + 1) * in.hidden);
    for (int other = 0; other < kMergeWarps; ++other) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) sum.x[i] += sums[other * kWarp + lane_index()].x[i];
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (c + i < in.hidden) in.sink[id * in.hidden + c + i] += sum.x[i];
    }
  }
}

}  // namespace

void embedding_forward(const int64_t* ids, const Bf16* table, const int64_t* positions,
                       const Bf16* position_table, Bf16* out, int64_t tokens, int64_t hidden, Stream stream) {
  launch("embedding.forward", forward_kernel, divide_up(tokens * divide_up(hidden, kUnit), 256), 256, 0,
         stream, ids, table, positions, position_table, out, tokens, hidden);
}
void embedding_gradient(const EmbeddingGradient& in, Stream stream) {
  const int64_t windows = divide_up(in.tokens, kEmbeddingWindow);
  launch("embedding.gradient", gradient_kernel, windows * divide_up(in.hidden, kWindowThreads * kUnit),
         kWindowThreads, kEmbeddingWindow * 12 + 16, stream, in);
  if (windows < 2) return;
  launch("embedding.merge", merge_kernel, divide_up(windows, kMergeWindows) * divide_up(in.hidden, kWarp * 4),
         kMergeWarps * kWarp, kMergeWarps * kWarp * 16, stream, in);
}

}  // namespace longhaul::kernels::cuda
