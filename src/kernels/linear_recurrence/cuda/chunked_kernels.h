// The chunked form of a run (run.h): a block of four warps takes a segment of a head and a slice of the value
// columns, chunk by chunk. Warp w computes 16 rows of the chunk's output (row_tile), and holds an equal share
// of the state's rows in registers. For the state of many segments: one pass over all but the last, without
// output, then a scan. The gradients of k and v go together where a block's registers hold the whole state:
// both runs have the same one, D, one of them its transpose, and what one reads as q the other reads as v.
// Heads of up to 64: the same four warps do both; of up to 128: four warps each.
#pragma once

#include "kernels/linear_recurrence/cuda/run.h"

namespace longhaul::kernels::cuda {

constexpr int kChunkedWarps = 4;

// By one warp.
LONGHAUL_DEVICE void sum_decays(const Run& run, const Segment& segment, int chunk, int head,
                                ChunkDecays& out) {
  const int lane = lane_index(), rows = rows_of(segment, chunk), row = 2 * lane;
  float g[2];
  LONGHAUL_UNROLL
  for (int i = 0; i < 2; ++i) {
    g[i] = row + i < rows ? log2_decay(run, token_at(segment, chunk * kChunk + row + i, run.against), head)
                          : 0.f;
  }
  const float inclusive = warp_inclusive_sum(g[0] + g[1]);
  const float neighbour = shuffle(inclusive, lane - 1);
  const float entering = lane == 0 ? 0.f : neighbour;
  const float all = shuffle(inclusive, kWarp - 1);
  const float sums[2] = {run.late ? entering : entering + g[0], run.late ? entering + g[0] : inclusive};
  LONGHAUL_UNROLL
  for (int i = 0; i < 2; ++i) {
    out.sums[row + i] = sums[i];
    out.factors[row + i] = run.write * power_of_two(all - sums[i]);
  }
  if (lane == 0) out.total = all;
}

// fp32 accumulators of kHeight × kWidth, keys × values or, kTransposed, values × keys: each of kWarps warps
// holds as many rows.
template <int kHeight, int kWidth, int kWarps = kChunkedWarps, bool kTransposed = false>
struct State {
  static constexpr int kRows = kHeight / kWarps, kTiles = kRows / 16, kColumns = kWidth / 8;
  float value[kTiles][kColumns][4];

  static LONGHAUL_DEVICE Place at(int tile, int column, int i) {
    const Place place = c_place(lane_index(), i);
    return {(kTransposed ? warp_index() % kWarps : warp_index()) * kRows + tile * 16 + place.row,
            column * 8 + place.col};
  }
  template <class Body>
  LONGHAUL_DEVICE void each(const Body& body) {  // of (value, its key and value channel)
    LONGHAUL_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      LONGHAUL_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        LONGHAUL_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place place = at(tile, column, i);
          body(value[tile][column][i], kTransposed ? Place{place.col, place.row} : place);
        }
      }
    }
  }
  template <class Shared>
  LONGHAUL_DEVICE void put(Shared to) const {  // rounded
    LONGHAUL_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      LONGHAUL_UNROLL
      for (int column = 0; column < kColumns; ++column) {
        LONGHAUL_UNROLL
        for (int half = 0; half < 2; ++half) {
          const Place place = at(tile, column, 2 * half);
          const float* x = value[tile][column] + 2 * half;
          *reinterpret_cast<uint32_t*>(to.at(place.row, place.col)) = pack(x[0], x[1]);
        }
      }
    }
  }
  // What enters the segment: the initial state, or what the scan has left.
  LONGHAUL_DEVICE void enter(const Run& run, const Segment& segment, int part, int head, int col0) {
    const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
    const bool from_initial = segment.index == 0;
    const int64_t initial_base = (static_cast<int64_t>(segment.document) * run.heads + head) * area;
    const float* saved = run.states + (static_cast<int64_t>(part) * run.heads + head) * area;
    each([&](float& x, Place place) {
      x = 0;
      if (place.row >= run.k.width || col0 + place.col >= run.v.width) return;
      if (!from_initial) x = saved[static_cast<int64_t>(place.row) * run.v.width + col0 + place.col];
      if (from_initial && run.initial.data != nullptr) {
        x = run.initial.data[initial_base + place.row * run.initial.row_stride +
                             (col0 + place.col) * run.initial.col_stride];
      }
    });
  }
  LONGHAUL_DEVICE void leave(const Run& run, const Segment& segment, int head, int col0) {
    if (segment.last == 0 || run.final.data == nullptr) return;
    const int64_t base =
        (static_cast<int64_t>(segment.document) * run.heads + head) * run.k.width * run.v.width;
    each([&](float& x, Place place) {
      if (place.row >= run.k.width || col0 + place.col >= run.v.width) return;
      run.final.data[base + place.row * run.final.row_stride + (col0 + place.col) * run.final.col_stride] = x;
    });
  }
};

// S ← 2^total S + (factors ⊙ k)ᵀ v over the 64 tokens of the chunk.
template <int kKeys, int kValues, int kWarps>
LONGHAUL_DEVICE void advance(State<kKeys, kValues, kWarps>& state, Tile<kKeys> k, Tile<kValues> v,
                             const ChunkDecays& decays) {
  using S = State<kKeys, kValues, kWarps>;
  const float decay = power_of_two(decays.total);
  state.each([&](float& x, Place) { x *= decay; });
  LONGHAUL_ROLL
  for (int token = 0; token < kChunk; token += 16) {
    FragmentB b[S::kColumns / 2][2];
    LONGHAUL_UNROLL
    for (int column = 0; column < S::kColumns / 2; ++column)
      load_b_transposed(b[column], v, token, column * 16);
    LONGHAUL_UNROLL
    for (int tile = 0; tile < S::kTiles; ++tile) {
      FragmentA a = load_a_transposed(k, token, warp_index() * S::kRows + tile * 16);
      scale_tokens(a, decays.factors + token);
      LONGHAUL_UNROLL
      for (int column = 0; column < S::kColumns; ++column)
        multiply_add(state.value[tile][column], a, b[column / 2][column % 2]);
    }
  }
}

// The warp's rows of what the state has given.
template <int kColumns>
LONGHAUL_DEVICE void decay_rows(float (&o)[kColumns][4], const float* sums) {
  const int row = row_tile(warp_index()) * 16 + lane_index() / 4;
  const float entering[2] = {power_of_two(sums[row]), power_of_two(sums[row + 8])};
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) o[column][i] *= entering[i >> 1];
  }
}

// The warp's rows of A: zero above the diagonal.
LONGHAUL_DEVICE void weigh_scores(float (&a)[kChunk / 8][4], const float* sums, float write) {
  const int row0 = row_tile(warp_index()) * 16, row = row0 + lane_index() / 4;
  const float sum[2] = {sums[row], sums[row + 8]};
  LONGHAUL_UNROLL
  for (int column = 0; column < kChunk / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      const int j = column * 8 + place.col;
      // Selected before the exponential: above the diagonal the difference is positive and may overflow.
      a[column][i] *=
          write * power_of_two(j <= row0 + place.row ? sum[i >> 1] - sums[j] : negative_infinity());
    }
  }
}

// The warp's 16 rows of the chunk's output: o = e^b q S + write · A v. kTransposed: the tile of the state
// holds its transpose.
template <int kKeys, int kValues, bool kTransposed = false>
LONGHAUL_DEVICE void read_out(float (&o)[kValues / 8][4], Tile<kKeys> q, Tile<kKeys> k, Tile<kValues> v,
                              Tile<kValues> state, const float* sums, float write) {
  constexpr int kColumns = kValues / 8;
  const int last = row_tile(warp_index()), row0 = last * 16;
  float a[kChunk / 8][4] = {};
  LONGHAUL_ROLL
  for (int key = 0; key < kKeys; key += 16) {
    const FragmentA query = load_a(q, row0, key);
    FragmentB b[2];
    LONGHAUL_UNROLL
    for (int column = 0; column < kColumns; column += 2) {
      if constexpr (kTransposed) {
        load_b(b, state, column * 8, key);
      } else {
        load_b_transposed(b, state, key, column * 8);
      }
      multiply_add(o[column], query, b[0]);
      multiply_add(o[column + 1], query, b[1]);
    }
    LONGHAUL_UNROLL
    for (int other = 0; other < kChunk / 16; ++other) {
      if (other > last) continue;  // above the diagonal
      load_b(b, k, other * 16, key);
      multiply_add(a[2 * other], query, b[0]);
      multiply_add(a[2 * other + 1], query, b[1]);
    }
  }
  decay_rows(o, sums);
  weigh_scores(a, sums, write);
  LONGHAUL_UNROLL
  for (int other = 0; other < kChunk / 16; ++other) {
    if (other > last) continue;
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

// The warp's rows to memory; in bf16 by way of the same rows of q, which no other warp reads.
template <int kColumns, int kWidth>
LONGHAUL_DEVICE void store_output(const Run& run, const Segment& segment, int chunk, int head, int slice,
                                  float (&o)[kColumns][4], Tile<kWidth> q) {
  constexpr int kValues = kColumns * 8;
  const int row0 = row_tile(warp_index()) * 16, rows = rows_of(segment, chunk), width = run.v.width;
  const auto offset = [&](int row) {
    return (token_at(segment, chunk * kChunk + row, run.against) * run.heads + head) * width +
           slice * kValues;
  };
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) o[column][i] *= run.scale;
  }
  if (run.out_fp32 == nullptr) {
    store_rows(q, row0, 0, o, rows, width - slice * kValues, [&](int row) { return run.out + offset(row); });
    return;
  }
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane_index(), i);
      const int row = row0 + place.row, col = column * 8 + place.col;
      if (row < rows && slice * kValues + col < width) run.out_fp32[offset(row) + col] = o[column][i];
    }
  }
}

// kOutput: a segment of a head, whole. Otherwise only the state that a segment adds, started from zero, and
// its total decay.
template <int kKeys, int kValues, bool kOutput>
LONGHAUL_KERNEL(kChunkedWarps* kWarp)
chunked_kernel(Run run) {
  LONGHAUL_SHARED(shared);
  constexpr ChunkedShared kShared = chunked_shared(kKeys, kValues);
  const ChunkedBlock block =
      chunked_block(blockIdx.x, run.heads, static_cast<int>(divide_up(run.v.width, kValues)));
  const Segment segment = run.segments[block.part];
  if (!kOutput && segment.last) return;
  const int chunks = chunks_of(segment), head = block.head, col0 = block.slice * kValues;
  const int64_t direction = run.against ? -1 : 1;
  const auto decays = [&](int chunk) -> ChunkDecays& {
    return reinterpret_cast<ChunkDecays*>(shared + kShared.decays)[chunk % 2];
  };
  const Tile<kValues> state_tile{reinterpret_cast<Bf16*>(shared + kShared.state)};
  const auto q_tile = [&](int chunk) {
    return Tile<kKeys>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage)};
  };
  const auto k_tile = [&](int chunk) {
    return Tile<kKeys>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage + kShared.k)};
  };
  const auto v_tile = [&](int chunk) {
    return Tile<kValues>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage + kShared.v)};
  };
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      const int64_t first = token_at(segment, static_cast<int64_t>(chunk) * kChunk, run.against);
      const int rows = rows_of(segment, chunk);
      if (kOutput)
        load_tile<kChunk>(q_tile(chunk), run.q.at(first, head), direction * run.q.stride, rows, run.q.width,
                          run.q.aligned);
      load_tile<kChunk>(k_tile(chunk), run.k.at(first, head), direction * run.k.stride, rows, run.k.width,
                        run.k.aligned);
      load_tile<kChunk>(v_tile(chunk), run.v.at(first, head) + col0, direction * run.v.stride, rows,
                        run.v.width - col0, run.v.aligned);
    }
    end_copy_group();
  };

  State<kKeys, kValues> state;
  if (kOutput) {
    state.enter(run, segment, block.part, head, col0);
  } else {
    state.each([](float& x, Place) { x = 0; });
  }

  float log_total = 0;
  load(0);
  if (warp_index() == 0) sum_decays(run, segment, 0, head, decays(0));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    load(chunk + 1);
    if (kOutput) state.put(state_tile);
    wait_for_copies<1>();
    __syncthreads();
    if (kOutput) {
      float o[kValues / 8][4] = {};
      read_out<kKeys, kValues>(o, q_tile(chunk), k_tile(chunk), v_tile(chunk), state_tile, decays(chunk).sums,
                               run.write);
      store_output(run, segment, chunk, head, block.slice, o, q_tile(chunk));
    }
    // it has few scores
    if (warp_index() == 0 && chunk + 1 < chunks) sum_decays(run, segment, chunk + 1, head, decays(chunk + 1));
    advance(state, k_tile(chunk), v_tile(chunk), decays(chunk));
    log_total += decays(chunk).total;
    __syncthreads();
  }
  wait_for_copies<0>();
  if (!kOutput) {
    float* saved =
        run.states + (static_cast<int64_t>(block.part) * run.heads + head) * run.k.width * run.v.width;
    state.each([&](float& x, Place place) {
      if (place.row < run.k.width && col0 + place.col < run.v.width)
        saved[static_cast<int64_t>(place.row) * run.v.width + col0 + place.col] = x;
    });
    if (block.slice == 0 && threadIdx.x == 0)
      run.segment_decays[static_cast<int64_t>(block.part) * run.heads + head] = power_of_two(log_total);
  } else {
    state.leave(run, segment, head, col0);
  }
}

// The runs of dv (k, q, do with D) and dk (v, do, q with Dᵀ) in one, for keys and values ≤ kWidth.
template <int kWidth>
constexpr int kJoinedWarps = kWidth == 64 ? kChunkedWarps : 2 * kChunkedWarps;

template <int kWidth>
LONGHAUL_KERNEL(kJoinedWarps<kWidth>* kWarp)
joined_kernel(Run of_v, Run of_k) {
  LONGHAUL_SHARED(shared);
  constexpr JoinedShared kShared = joined_shared(kWidth);
  // the first half of the warps computes dv, the second dk
  constexpr bool kHalves = kJoinedWarps<kWidth> == 2 * kChunkedWarps;
  const ChunkedBlock block = chunked_block(blockIdx.x, of_v.heads, 1);
  const Segment segment = of_v.segments[block.part];
  const int chunks = chunks_of(segment), head = block.head;
  const int64_t direction = of_v.against ? -1 : 1;
  const auto decays = [&](int chunk) -> ChunkDecays& {
    return reinterpret_cast<ChunkDecays*>(shared + kShared.decays)[chunk % 2];
  };
  const Tile<kWidth> state_tile{reinterpret_cast<Bf16*>(shared + kShared.state)};
  enum { kQ, kK, kV, kO };
  const auto tile = [&](int chunk, int which) {
    return Tile<kWidth>{reinterpret_cast<Bf16*>(shared + chunk % 2 * kShared.stage) +
                        which * kChunk * kWidth};
  };
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      const int64_t first = token_at(segment, static_cast<int64_t>(chunk) * kChunk, of_v.against);
      const Rows* rows[] = {&of_v.k, &of_v.q, &of_k.q, &of_v.v};
      LONGHAUL_UNROLL
      for (int which = kQ; which <= kO; ++which) {
        const Rows& from = *rows[which];
        load_tile<kChunk>(tile(chunk, which), from.at(first, head), direction * from.stride,
                          rows_of(segment, chunk), from.width, from.aligned);
      }
    }
    end_copy_group();
  };
  State<kWidth, kWidth, kJoinedWarps<kWidth>> state;
  state.enter(of_v, segment, block.part, head, 0);
  load(0);
  if (warp_index() == 0) sum_decays(of_v, segment, 0, head, decays(0));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    load(chunk + 1);
    state.put(state_tile);
    wait_for_copies<1>();
    __syncthreads();
    // No other warp reads these rows of k, or v, so they may take the output on its way out.
    if (!kHalves || warp_index() < kChunkedWarps) {
      float o[kWidth / 8][4] = {};
      read_out<kWidth, kWidth>(o, tile(chunk, kK), tile(chunk, kQ), tile(chunk, kO), state_tile,
                               decays(chunk).sums, of_v.write);
      store_output(of_v, segment, chunk, head, 0, o, tile(chunk, kK));
    }
    if (!kHalves || warp_index() >= kChunkedWarps) {
      float o[kWidth / 8][4] = {};
      read_out<kWidth, kWidth, true>(o, tile(chunk, kV), tile(chunk, kO), tile(chunk, kQ), state_tile,
                                     decays(chunk).sums, of_k.write);
      store_output(of_k, segment, chunk, head, 0, o, tile(chunk, kV));
    }
    if (warp_index() == 0 && chunk + 1 < chunks)
      sum_decays(of_v, segment, chunk + 1, head, decays(chunk + 1));
    advance(state, tile(chunk, kQ), tile(chunk, kO), decays(chunk));
    __syncthreads();
  }
  wait_for_copies<0>();
  state.leave(of_v, segment, head, 0);
}

// Turns what each segment adds into what enters it: (a₂, X₂) ∘ (a₁, X₁) = (a₁ a₂, a₂ X₁ + X₂). A thread per
// element of a head's state.
LONGHAUL_KERNEL(256) scan_kernel(Run run) {
  const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
  const int64_t blocks = divide_up(area, 256), element = blockIdx.x % blocks * 256 + threadIdx.x;
  const int head = static_cast<int>(blockIdx.x / blocks % run.heads),
            document = static_cast<int>(blockIdx.x / blocks / run.heads);
  if (element >= area) return;
  float x = 0;
  if (run.initial.data != nullptr) {
    x = run.initial.data[(static_cast<int64_t>(document) * run.heads + head) * area +
                         element / run.v.width * run.initial.row_stride +
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

}  // namespace longhaul::kernels::cuda
