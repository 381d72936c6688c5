// See cuda.h. Notation of linear-attention.md §2: b are sums of log-decays within a chunk (here in units of log 2), S the state that
// enters, A = mask(q kᵀ e^{b_i − b_j}); o = out · (e^b q S + write · A v), S ← e^{total} S + write · (e^{total − b} k)ᵀ v.
// A run `late` decays after a token has been read instead of before it is written: b is then the exclusive sum.
#include "kernels/linear_recurrence/cuda.h"

#include "kernels/cuda/mma.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr float kSmallestLog = -192.f;  // 2^-192 is 0 in fp32: a steeper decay changes nothing, and would cost the sums digits

struct Rows {  // [tokens, heads, width]; head h of the run reads head h / group
  const Bf16* data;
  int group, width;
  int64_t stride;  // between tokens
  bool aligned;
  LONGHAUL_DEVICE const Bf16* at(int64_t token, int head) const { return data + token * stride + static_cast<int64_t>(head / group) * width; }
};

// A state [N, H, rows, cols] in memory that may hold its transpose.
struct StateView {
  float* data;
  int64_t row_stride, col_stride;
};

struct Run {
  Rows q, k, v;  // k.width × v.width is the state
  Bf16* out;     // [T, H, v.width]
  float* out_fp32;  // instead of `out`, where it is not null
  DecayKind kind;
  bool decay_on_columns;  // kChannelToken: the decayed axis is v's, not k's
  const float* log_decay;
  StateView initial, final;  // data may be null
  const Segment* segments;
  const int32_t* document_segments;
  const int64_t* offsets;
  int segment_count, documents, heads;
  float* states;          // [segments, H, rows, cols]: what enters each
  float* segment_decays;  // [segments, H]
  float write, scale;
  bool against, late;
};

LONGHAUL_DEVICE float log2_decay(const Run& run, int64_t token, int head) {
  if (run.kind == DecayKind::kNone) return 0.f;
  const float g = run.kind == DecayKind::kHead ? run.log_decay[head] : run.log_decay[token * run.heads + head];
  return fmaxf(g * kLog2E, kSmallestLog);
}

// Sums of decays of a chunk, by the first warp: b into `sums`, write · 2^(total − b) into `factors`.
LONGHAUL_DEVICE void sum_decays(const Run& run, const Segment& segment, int chunk, int head, float* sums, float* factors, float* total) {
  const int lane = lane_index(), rows = rows_of(segment, chunk), row = 2 * lane;
  float g[2];
  LONGHAUL_UNROLL
  for (int i = 0; i < 2; ++i) {
    g[i] = row + i < rows ? log2_decay(run, token_at(segment, chunk * kChunk + row + i, run.against), head) : 0.f;
  }
  float inclusive = g[0] + g[1];
  for (int step = 1; step < kWarp; step *= 2) {
    const float before = shuffle(inclusive, lane - step);
    if (lane >= step) inclusive += before;
  }
  const float neighbour = shuffle(inclusive, lane - 1);
  const float entering = lane == 0 ? 0.f : neighbour;
  const float all = shuffle(inclusive, kWarp - 1);
  sums[row] = run.late ? entering : entering + g[0];
  sums[row + 1] = run.late ? entering + g[0] : inclusive;
  factors[row] = run.write * power_of_two(all - sums[row]);
  factors[row + 1] = run.write * power_of_two(all - sums[row + 1]);
  if (lane == 0) *total = all;
}

template <int kKeys, int kValues>
struct State {  // fp32 accumulators: warp w holds rows w · kKeys/4 … of the state's slice
  static constexpr int kTiles = kKeys / 64, kColumns = kValues / 8;
  float value[kTiles][kColumns][4];

  static LONGHAUL_DEVICE Place at(int tile, int column, int i) {
    const Place place = c_place(lane_index(), i);
    return {warp_index() * (kKeys / 4) + tile * 16 + place.row, column * 8 + place.col};
  }
  template <class Body>
  LONGHAUL_DEVICE void each(const Body& body) {
    LONGHAUL_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      LONGHAUL_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        LONGHAUL_UNROLL
        for (int i = 0; i < 4; ++i) body(value[tile][column][i], at(tile, column, i));
      }
    }
  }
};

// S ← 2^total S + (factors ⊙ k)ᵀ v over the 64 tokens of the chunk.
template <int kKeys, int kValues>
LONGHAUL_DEVICE void advance(State<kKeys, kValues>& state, Tile<kKeys> k, Tile<kValues> v, const float* factors, float total) {
  using S = State<kKeys, kValues>;
  const float decay = power_of_two(total);
  state.each([&](float& x, Place) { x *= decay; });
  LONGHAUL_ROLL
  for (int token = 0; token < kChunk; token += 16) {
    FragmentB b[S::kColumns / 2][2];
    LONGHAUL_UNROLL
    for (int column = 0; column < S::kColumns / 2; ++column) load_b_transposed(b[column], v, token, column * 16);
    const int first = token + 2 * (lane_index() % 4);
    const float near[2] = {factors[first], factors[first + 1]}, far[2] = {factors[first + 8], factors[first + 9]};
    LONGHAUL_UNROLL
    for (int tile = 0; tile < S::kTiles; ++tile) {
      FragmentA a = load_a_transposed(k, token, warp_index() * (kKeys / 4) + tile * 16);
      LONGHAUL_UNROLL
      for (int reg = 0; reg < 4; ++reg) {
        const float* factor = reg < 2 ? near : far;
        a.reg[reg] = pack(low_half(a.reg[reg]) * factor[0], high_half(a.reg[reg]) * factor[1]);
      }
      LONGHAUL_UNROLL
      for (int column = 0; column < S::kColumns; ++column) multiply_add(state.value[tile][column], a, b[column / 2][column % 2]);
    }
  }
}

// Rows 16 w … of the chunk's output: o = e^b q S + write · A v.
template <int kKeys, int kValues>
LONGHAUL_DEVICE void read_out(float (&o)[kValues / 8][4], Tile<kKeys> q, Tile<kKeys> k, Tile<kValues> v, Tile<kValues> state, const float* sums,
                              float write) {
  constexpr int kColumns = kValues / 8;
  const int warp = warp_index(), row0 = warp * 16;
  float a[kChunk / 8][4] = {};
  LONGHAUL_ROLL
  for (int key = 0; key < kKeys; key += 16) {
    const FragmentA query = load_a(q, row0, key);
    FragmentB b[2];
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; column += 2) {
      load_b_transposed(b, state, key, column * 8);
      multiply_add(o[column], query, b[0]);
      multiply_add(o[column + 1], query, b[1]);
    }
    LONGHAUL_UNROLL
    for (int other = 0; other < kChunk / 16; ++other) {
      if (other > warp) continue;  // above the diagonal
      load_b(b, k, other * 16, key);
      multiply_add(a[2 * other], query, b[0]);
      multiply_add(a[2 * other + 1], query, b[1]);
    }
  }
  const int row = row0 + lane_index() / 4;
  const float sum[2] = {sums[row], sums[row + 8]}, entering[2] = {power_of_two(sum[0]), power_of_two(sum[1])};
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) o[column][i] *= entering[i >> 1];
  }
  LONGHAUL_UNROLL
  for (int column = 0; column < kChunk / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      const int j = column * 8 + place.col;
      // Selected before the exponential: above the diagonal the difference is positive and may overflow.
      a[column][i] *= write * power_of_two(j <= row0 + place.row ? sum[i >> 1] - sums[j] : negative_infinity());
    }
  }
  LONGHAUL_UNROLL
  for (int other = 0; other < kChunk / 16; ++other) {
    if (other > warp) continue;
    const FragmentA weights = as_a(a[2 * other], a[2 * other + 1]);
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; column += 2) {
      FragmentB b[2];
      load_b_transposed(b, v, other * 16, column * 8);
      multiply_add(o[column], weights, b[0]);
      multiply_add(o[column + 1], weights, b[1]);
    }
  }
}

// The warp's 16 rows to memory; in bf16 by way of its own rows of q, which no other warp reads.
template <int kKeys, int kValues>
LONGHAUL_DEVICE void store_output(const Run& run, const Segment& segment, int chunk, int head, int slice, float (&o)[kValues / 8][4], Tile<kKeys> q) {
  const int row0 = warp_index() * 16, rows = rows_of(segment, chunk), width = run.v.width;
  const auto offset = [&](int row) { return (token_at(segment, chunk * kChunk + row, run.against) * run.heads + head) * width + slice * kValues; };
  LONGHAUL_UNROLL
  for (int column = 0; column < kValues / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) o[column][i] *= run.scale;
  }
  if (run.out_fp32 == nullptr) {
    store_rows(q, row0, 0, o, rows, width - slice * kValues, [&](int row) { return run.out + offset(row); });
    return;
  }
  LONGHAUL_UNROLL
  for (int column = 0; column < kValues / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      const int row = row0 + place.row, col = column * 8 + place.col;
      if (row < rows && slice * kValues + col < width) run.out_fp32[offset(row) + col] = o[column][i];
    }
  }
}

// kOutput: a segment of a head, whole. Otherwise only the state that a segment adds, started from zero, and its total decay.
template <int kKeys, int kValues, bool kOutput>
LONGHAUL_KERNEL(kThreads) chunked_kernel(Run run) {
  LONGHAUL_SHARED(shared);
  constexpr ChunkedShared kShared = chunked_shared(kKeys, kValues);
  const ChunkedBlock block = chunked_block(blockIdx.x, run.heads, static_cast<int>(divide_up(run.v.width, kValues)));
  const Segment segment = run.segments[block.segment];
  if (!kOutput && segment.last) return;
  const int chunks = chunks_of(segment), head = block.head, col0 = block.slice * kValues;
  const int64_t direction = run.against ? -1 : 1;
  float* sums = reinterpret_cast<float*>(shared + kShared.sums);
  float* factors = reinterpret_cast<float*>(shared + kShared.factors);
  float* total = reinterpret_cast<float*>(shared + kShared.total);
  const Tile<kValues> state_tile{reinterpret_cast<Bf16*>(shared + kShared.state)};
  const auto q_tile = [&](int chunk) { return Tile<kKeys>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage)}; };
  const auto k_tile = [&](int chunk) { return Tile<kKeys>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage + kShared.k)}; };
  const auto v_tile = [&](int chunk) { return Tile<kValues>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage + kShared.v)}; };
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      const int64_t first = token_at(segment, static_cast<int64_t>(chunk) * kChunk, run.against);
      const int rows = rows_of(segment, chunk);
      if (kOutput) load_tile<kChunk>(q_tile(chunk), run.q.at(first, head), direction * run.q.stride, rows, run.q.width, run.q.aligned);
      load_tile<kChunk>(k_tile(chunk), run.k.at(first, head), direction * run.k.stride, rows, run.k.width, run.k.aligned);
      load_tile<kChunk>(v_tile(chunk), run.v.at(first, head) + col0, direction * run.v.stride, rows, run.v.width - col0, run.v.aligned);
    }
    end_copy_group();
  };

  State<kKeys, kValues> state;
  const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
  const bool from_initial = segment.index == 0;
  const int64_t initial_base = (static_cast<int64_t>(segment.document) * run.heads + head) * area;
  float* saved = run.states + (static_cast<int64_t>(block.segment) * run.heads + head) * area;
  const auto inside = [&](Place place) { return place.row < run.k.width && col0 + place.col < run.v.width; };
  state.each([&](float& x, Place place) {
    x = 0;
    if (!kOutput || !inside(place)) return;
    if (!from_initial) x = saved[static_cast<int64_t>(place.row) * run.v.width + col0 + place.col];
    if (from_initial && run.initial.data != nullptr) {
      x = run.initial.data[initial_base + place.row * run.initial.row_stride + (col0 + place.col) * run.initial.col_stride];
    }
  });

  float log_total = 0;
  load(0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    load(chunk + 1);
    if (warp_index() == 0) sum_decays(run, segment, chunk, head, sums, factors, total);
    if (kOutput) {
      LONGHAUL_UNROLL
      for (int tile = 0; tile < State<kKeys, kValues>::kTiles; ++tile) {
        LONGHAUL_UNROLL
        for (int column = 0; column < kValues / 8; ++column) {
          LONGHAUL_UNROLL
          for (int half = 0; half < 2; ++half) {
            const Place place = State<kKeys, kValues>::at(tile, column, 2 * half);
            const float* x = state.value[tile][column] + 2 * half;
            *reinterpret_cast<uint32_t*>(state_tile.at(place.row, place.col)) = pack(x[0], x[1]);
          }
        }
      }
    }
    wait_for_copies<1>();
    __syncthreads();
    if (kOutput) {
      float o[kValues / 8][4] = {};
      read_out<kKeys, kValues>(o, q_tile(chunk), k_tile(chunk), v_tile(chunk), state_tile, sums, run.write);
      store_output<kKeys, kValues>(run, segment, chunk, head, block.slice, o, q_tile(chunk));
    }
    advance(state, k_tile(chunk), v_tile(chunk), factors, *total);
    log_total += *total;
    __syncthreads();
  }
  wait_for_copies<0>();
  if (!kOutput) {
    state.each([&](float& x, Place place) {
      if (inside(place)) saved[static_cast<int64_t>(place.row) * run.v.width + col0 + place.col] = x;
    });
    if (block.slice == 0 && threadIdx.x == 0) run.segment_decays[static_cast<int64_t>(block.segment) * run.heads + head] = power_of_two(log_total);
  } else if (segment.last && run.final.data != nullptr) {
    state.each([&](float& x, Place place) {
      if (inside(place)) run.final.data[initial_base + place.row * run.final.row_stride + (col0 + place.col) * run.final.col_stride] = x;
    });
  }
}

// Turns what each segment adds into what enters it: (a₂, X₂) ∘ (a₁, X₁) = (a₁ a₂, a₂ X₁ + X₂). A thread per element of a head's state.
LONGHAUL_KERNEL(256) scan_kernel(Run run) {
  const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
  const int64_t blocks = divide_up(area, 256), element = blockIdx.x % blocks * 256 + threadIdx.x;
  const int head = static_cast<int>(blockIdx.x / blocks % run.heads), document = static_cast<int>(blockIdx.x / blocks / run.heads);
  if (element >= area) return;
  float x = 0;
  if (run.initial.data != nullptr) {
    x = run.initial.data[(static_cast<int64_t>(document) * run.heads + head) * area + element / run.v.width * run.initial.row_stride +
                         element % run.v.width * run.initial.col_stride];
  }
  for (int s = run.document_segments[document]; s + 1 < run.document_segments[document + 1]; ++s) {
    float* here = run.states + (static_cast<int64_t>(s) * run.heads + head) * area + element;
    const float added = *here;
    *here = x;
    x = run.segment_decays[static_cast<int64_t>(s) * run.heads + head] * x + added;
  }
  const int last = run.document_segments[document + 1] - 1;
  run.states[(static_cast<int64_t>(last) * run.heads + head) * area + element] = x;
}

template <int kKeys, int kValues>
void run_chunked(const Run& run, Stream stream) {
  const int64_t slices = divide_up(run.v.width, kValues), blocks = run.segment_count * slices * run.heads;
  const int bytes = chunked_shared(kKeys, kValues).bytes;
  if (run.segment_count > run.documents) {
    launch("linear_recurrence.segment_states", chunked_kernel<kKeys, kValues, false>, blocks, kThreads, bytes, stream, run);
    const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
    launch("linear_recurrence.scan", scan_kernel, divide_up(area, 256) * run.heads * run.documents, 256, 0, stream, run);
  }
  launch("linear_recurrence.chunked", chunked_kernel<kKeys, kValues, true>, blocks, kThreads, bytes, stream, run);
}

void run_chunked(const Run& run, Stream stream) {
  switch (padded_keys(run.k.width)) {
    case 64: return run_chunked<64, 64>(run, stream);
    case 128: return run_chunked<128, 64>(run, stream);
    default: return run_chunked<256, 32>(run, stream);
  }
}

// ---- the exact form ----------------------------------------------------------------------------------------------------------

// 32 columns of one head's state, token by token; each thread holds 32 rows of one column.
LONGHAUL_KERNEL(256) exact_kernel(Run run) {
  LONGHAUL_SHARED(shared);
  const ExactShared layout = exact_shared(run.k.width);
  float* q = reinterpret_cast<float*>(shared);
  float* k = reinterpret_cast<float*>(shared + layout.k);
  float* decay = reinterpret_cast<float*>(shared + layout.decay);
  float* v = reinterpret_cast<float*>(shared + layout.v);
  float* partial = reinterpret_cast<float*>(shared + layout.partial);
  const int slices = static_cast<int>(divide_up(run.v.width, 32)), warps = exact_warps(run.k.width), rows = warps * 32;
  const int slice = static_cast<int>(blockIdx.x) % slices, head = static_cast<int>(blockIdx.x) / slices % run.heads;
  const int document = static_cast<int>(blockIdx.x) / slices / run.heads;
  const int lane = lane_index(), row0 = warp_index() * 32, col = slice * 32 + lane;
  const int64_t begin = run.offsets[document], length = run.offsets[document + 1] - begin;
  const int64_t state_base = (static_cast<int64_t>(document) * run.heads + head) * run.k.width * run.v.width;
  const auto token = [&](int64_t i) { return run.against ? begin + length - 1 - i : begin + i; };
  float state[32];
  LONGHAUL_UNROLL
  for (int r = 0; r < 32; ++r) {
    const bool inside = run.initial.data != nullptr && row0 + r < run.k.width && col < run.v.width;
    state[r] = inside ? run.initial.data[state_base + (row0 + r) * run.initial.row_stride + col * run.initial.col_stride] : 0.f;
  }
  for (int64_t done = 0; done < length; done += kExactBatch) {
    const int batch = static_cast<int>(length - done < kExactBatch ? length - done : kExactBatch);
    for (int i = static_cast<int>(threadIdx.x); i < batch * rows; i += static_cast<int>(blockDim.x)) {
      const int64_t t = token(done + i / rows);
      const int r = i % rows;
      const bool inside = r < run.k.width;
      q[i] = inside ? to_float(run.q.at(t, head)[r]) : 0.f;
      k[i] = inside ? run.write * to_float(run.k.at(t, head)[r]) : 0.f;
      float log = 0;
      if (run.kind == DecayKind::kHead || run.kind == DecayKind::kHeadToken) log = log2_decay(run, t, head);
      if (run.kind == DecayKind::kChannelToken && !run.decay_on_columns && inside) log = run.log_decay[(t * run.heads + head) * run.k.width + r] * kLog2E;
      decay[i] = power_of_two(log);
    }
    for (int i = static_cast<int>(threadIdx.x); i < batch * 32; i += static_cast<int>(blockDim.x)) {
      const int c = slice * 32 + i % 32;
      v[i] = c < run.v.width ? to_float(run.v.at(token(done + i / 32), head)[c]) : 0.f;
    }
    __syncthreads();
    for (int i = 0; i < batch; ++i) {
      float column = 1;
      if (run.decay_on_columns && col < run.v.width) {
        column = power_of_two(run.log_decay[(token(done + i) * run.heads + head) * run.v.width + col] * kLog2E);
      }
      const float value = v[i * 32 + lane];
      float sum = 0;
      LONGHAUL_UNROLL
      for (int r = 0; r < 32; ++r) {
        const float lambda = run.decay_on_columns ? column : decay[i * rows + row0 + r];
        const float added = k[i * rows + row0 + r] * value;
        const float now = run.late ? state[r] + added : lambda * state[r] + added;
        sum += q[i * rows + row0 + r] * now;
        state[r] = run.late ? lambda * now : now;
      }
      partial[(i * warps + warp_index()) * 32 + lane] = sum;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < batch * 32; i += static_cast<int>(blockDim.x)) {
      const int c = slice * 32 + i % 32;
      if (c >= run.v.width) continue;
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += partial[(i / 32 * warps + w) * 32 + i % 32];
      const int64_t at = (token(done + i / 32) * run.heads + head) * run.v.width + c;
      if (run.out_fp32 != nullptr) {
        run.out_fp32[at] = run.scale * sum;
      } else {
        run.out[at] = from_float<Bf16>(run.scale * sum);
      }
    }
  }
  if (run.final.data == nullptr || col >= run.v.width) return;
  LONGHAUL_UNROLL
  for (int r = 0; r < 32; ++r) {
    if (row0 + r < run.k.width) run.final.data[state_base + (row0 + r) * run.final.row_stride + col * run.final.col_stride] = state[r];
  }
}

void run_exact(const Run& run, Stream stream) {
  const int64_t blocks = divide_up(run.v.width, 32) * run.heads * run.documents;
  launch("linear_recurrence.exact", exact_kernel, blocks, exact_warps(run.k.width) * 32, exact_shared(run.k.width).bytes, stream, run);
}

// ---- sums over groups of heads, gradients of the decay -----------------------------------------------------------------------

// out[t, head, c] = Σ over the group's heads of x[t, head · group + g, c], in order.
LONGHAUL_KERNEL(256) group_sum_kernel(const float* x, Bf16* out, int64_t count, int group, int width) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const float* from = x + i / width * group * width + i % width;
  float sum = 0;
  for (int g = 0; g < group; ++g) sum += from[static_cast<int64_t>(g) * width];
  out[i] = from_float<Bf16>(sum);
}

// dg_t = Σ_{s ≥ t} (q_s ⊙ dq_s − k_s ⊙ dk_s) + rowsum(S_T ⊙ dS_T), s in the order of the forward run; the long sum in fp64, as its
// terms cancel. A thread per channel; the scalar kinds add up the channels of a token first (a block holds a head).
struct DecayGradient {
  const Bf16 *q, *k;
  const float *d_q, *d_k;                // fp32 [T, H, keys]
  const float *final_state, *d_final;    // [N, H, keys, values]; d_final may be null
  const float* log_decay;
  const int64_t* offsets;
  float* out;
  int documents, heads, group, keys, values;
  DecayKind kind;
  bool reverse;
};

// λ itself is a factor of its gradient: where it is 0 in fp32, what the cancelling sum left over is rounding.
LONGHAUL_DEVICE float where_decay_lives(double sum, float log_decay) { return log_decay > -104.f ? static_cast<float>(sum) : 0.f; }

LONGHAUL_KERNEL(256) decay_gradient_kernel(DecayGradient problem) {
  LONGHAUL_SHARED(shared);
  float* scratch = reinterpret_cast<float*>(shared);
  const int head = static_cast<int>(blockIdx.x), channel = static_cast<int>(threadIdx.x);
  const bool inside = channel < problem.keys, per_channel = problem.kind == DecayKind::kChannelToken;
  double of_head = 0;
  for (int n = 0; n < problem.documents; ++n) {
    const int64_t begin = problem.offsets[n], length = problem.offsets[n + 1] - begin;
    float last = 0;
    if (inside && problem.d_final != nullptr) {
      const int64_t row = ((static_cast<int64_t>(n) * problem.heads + head) * problem.keys + channel) * problem.values;
      for (int c = 0; c < problem.values; ++c) last += problem.final_state[row + c] * problem.d_final[row + c];
    }
    double sum = per_channel ? last : block_sum(last, scratch);
    for (int64_t i = length - 1; i >= 0; --i) {
      const int64_t t = problem.reverse ? begin + length - 1 - i : begin + i;
      float term = 0;
      if (inside) {
        const int64_t at = (t * problem.heads + head) * problem.keys + channel;
        const int64_t key = (t * (problem.heads / problem.group) + head / problem.group) * problem.keys + channel;
        term = to_float(problem.q[at]) * problem.d_q[at] - to_float(problem.k[key]) * problem.d_k[at];
      }
      sum += per_channel ? term : block_sum(term, scratch);
      of_head += sum;
      const int64_t at = per_channel ? (t * problem.heads + head) * problem.keys + channel : t * problem.heads + head;
      const bool mine = per_channel ? inside : problem.kind == DecayKind::kHeadToken && channel == 0;
      if (mine) problem.out[at] = where_decay_lives(sum, problem.log_decay[at]);
    }
  }
  if (problem.kind == DecayKind::kHead && channel == 0) problem.out[head] = where_decay_lives(of_head, problem.log_decay[head]);
}

// ---- the runs of one problem -------------------------------------------------------------------------------------------------

Rows rows_view(const Bf16* data, int heads, int group, int width) {
  return {data, group, width, static_cast<int64_t>(heads) * width, width % kUnit == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

struct Roles {
  Rows q, k, v, d_o;
  int64_t keys, values;
  explicit Roles(const Recurrence& p, const Bf16* gradient = nullptr)
      : q(rows_view(p.q, p.heads, 1, p.keys)),
        k(rows_view(p.k, p.key_heads, p.heads / p.key_heads, p.keys)),
        v(rows_view(p.v, p.key_heads, p.heads / p.key_heads, p.values)),
        d_o(rows_view(gradient, p.heads, 1, p.values)),
        keys(p.keys),
        values(p.values) {}
};

Run base_run(const Recurrence& p, const RecurrenceTables& tables, bool against) {
  Run run{};
  run.kind = p.kind;
  run.log_decay = p.log_decay;
  run.segments = against ? tables.against : tables.along;
  run.document_segments = tables.document_segments;
  run.segment_count = tables.segments;
  run.offsets = p.offsets;
  run.documents = p.documents;
  run.heads = p.heads;
  run.write = 1;
  run.scale = p.scale;
  run.against = against;
  return run;
}

StateView as_stored(const float* data, const Recurrence& p) { return {const_cast<float*>(data), p.values, 1}; }
StateView transposed(const float* data, const Recurrence& p) { return {const_cast<float*>(data), 1, p.values}; }

Run forward_run(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state) {
  const Roles roles(p);
  Run run = base_run(p, tables, p.reverse);
  run.q = roles.q, run.k = roles.k, run.v = roles.v;
  run.out = o;
  run.initial = as_stored(p.initial, p);
  run.final = as_stored(final_state, p);
  return run;
}

// The gradients as runs. `final_state`, where wanted, takes S_T (for the gradient of the decay).
struct BackwardRuns {
  Run q, k, v;
};
BackwardRuns backward_runs(const Recurrence& p, const RecurrenceTables& tables, const RecurrenceGradientPointers& gradients, float* final_state) {
  const Roles roles(p, gradients.d_o);
  BackwardRuns runs{base_run(p, tables, p.reverse), base_run(p, tables, !p.reverse), base_run(p, tables, !p.reverse)};
  runs.q.q = roles.d_o, runs.q.k = roles.v, runs.q.v = roles.k;
  runs.q.out = gradients.d_q;
  runs.q.initial = transposed(p.initial, p);
  runs.q.final = transposed(final_state, p);
  runs.q.decay_on_columns = p.kind == DecayKind::kChannelToken;
  runs.k.q = roles.v, runs.k.k = roles.d_o, runs.k.v = roles.q;
  runs.k.initial = transposed(gradients.d_final, p);
  runs.k.decay_on_columns = p.kind == DecayKind::kChannelToken;
  runs.v.q = roles.k, runs.v.k = roles.q, runs.v.v = roles.d_o;
  runs.v.initial = as_stored(gradients.d_final, p);
  runs.v.final = as_stored(gradients.d_initial, p);
  for (Run* run : {&runs.k, &runs.v}) {
    run->late = true;
    run->write = p.scale;
    run->scale = 1;
  }
  return runs;
}

void sum_group(const float* x, Bf16* out, int64_t tokens, int heads_out, int group, int width, Stream stream) {
  const int64_t count = tokens * heads_out * width;
  launch("linear_recurrence.group_sum", group_sum_kernel, divide_up(count, 256), 256, 0, stream, x, out, count, group, width);
}

struct Workspace {
  float *states, *segment_decays, *wide_k, *wide_v;
};
int64_t state_floats(const Recurrence& p) { return static_cast<int64_t>(p.heads) * p.keys * p.values; }
Workspace divide_workspace(const Recurrence& p, int segments, void* memory) {
  Workspace w{};
  w.states = static_cast<float*>(memory);
  w.segment_decays = w.states + segments * state_floats(p);
  w.wide_k = w.segment_decays + static_cast<int64_t>(segments) * p.heads;
  w.wide_v = w.wide_k + p.tokens * p.heads * p.keys;
  return w;
}

}  // namespace

int64_t chunked_workspace_bytes(const Recurrence& p, int segments, bool backward) {
  const bool grouped = backward && p.heads != p.key_heads;
  return 4 * (segments * (state_floats(p) + p.heads) + (grouped ? p.tokens * p.heads * (p.keys + p.values) : 0));
}

void chunked_forward(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state, void* workspace, Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  Run run = forward_run(p, tables, o, final_state);
  run.states = w.states, run.segment_decays = w.segment_decays;
  run_chunked(run, stream);
}

void chunked_backward(const Recurrence& p, const RecurrenceTables& tables, const RecurrenceGradientPointers& gradients, void* workspace,
                      Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  BackwardRuns runs = backward_runs(p, tables, gradients, nullptr);
  for (Run* run : {&runs.q, &runs.k, &runs.v}) run->states = w.states, run->segment_decays = w.segment_decays;
  const int group = p.heads / p.key_heads;
  runs.k.out = gradients.d_k;
  runs.v.out = gradients.d_v;
  if (group > 1) runs.k.out_fp32 = w.wide_k, runs.v.out_fp32 = w.wide_v;
  run_chunked(runs.q, stream);
  run_chunked(runs.k, stream);
  run_chunked(runs.v, stream);
  if (group == 1) return;
  sum_group(w.wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(w.wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
}

int64_t exact_workspace_bytes(const Recurrence& p, bool backward) {
  return backward ? 4 * (p.tokens * p.heads * (2 * p.keys + p.values) + p.documents * state_floats(p)) : 0;
}

void exact_forward(const Recurrence& p, Bf16* o, float* final_state, Stream stream) {
  run_exact(forward_run(p, {}, o, final_state), stream);
}

void exact_backward(const Recurrence& p, const RecurrenceGradientPointers& gradients, void* workspace, Stream stream) {
  float* wide_q = static_cast<float*>(workspace);
  float* wide_k = wide_q + p.tokens * p.heads * p.keys;
  float* wide_v = wide_k + p.tokens * p.heads * p.keys;
  float* final_state = wide_v + p.tokens * p.heads * p.values;
  BackwardRuns runs = backward_runs(p, {}, gradients, final_state);
  runs.q.out_fp32 = wide_q, runs.k.out_fp32 = wide_k, runs.v.out_fp32 = wide_v;
  run_exact(runs.q, stream);
  run_exact(runs.k, stream);
  run_exact(runs.v, stream);
  const int group = p.heads / p.key_heads;
  sum_group(wide_q, gradients.d_q, p.tokens, p.heads, 1, p.keys, stream);
  sum_group(wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
  if (gradients.d_log_decay == nullptr) return;
  const DecayGradient decay{p.q, p.k, wide_q, wide_k, final_state, gradients.d_final, p.log_decay, p.offsets, gradients.d_log_decay,
                            p.documents, p.heads, group, p.keys, p.values, p.kind, p.reverse};
  launch("linear_recurrence.decay_gradient", decay_gradient_kernel, p.heads, static_cast<int>(round_up(p.keys, kWarp)), 32 * 4, stream, decay);
}

}  // namespace longhaul::kernels::cuda
