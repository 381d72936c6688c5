// The passes along the chunks of a document and against them (delta.h): all that waits for what was before.
// A block has a document, a head, all keys and 32 values; its four warps hold the state, or its gradient, in
// registers, each a quarter of the keys, and compute 16 rows each of what belongs to tokens. While a chunk is
// worked on the next one is loaded, except for keys above 128 backward, where shared memory has room for one.
#pragma once

#include "kernels/delta_rule/cuda/delta.h"

namespace longhaul::kernels::cuda {

constexpr int kStatesThreads = 128, kStateValues = 32;
constexpr int kStateColumns = kStateValues / 8;
constexpr int kStateRowsBytes = kChunk * kStateValues * 2;

template <int kKeys>
struct DeltaShared {
  static constexpr int kRowsBytes = kChunk * kKeys * 2;
  // k, T, v; and k, q, T, P, dO
  static constexpr int kForward = kRowsBytes + kTileBytes + kStateRowsBytes,
                       kBackward = 2 * kRowsBytes + 2 * kTileBytes + kStateRowsBytes;
  static constexpr int kBackwardStages = kKeys > 128 ? 1 : 2;
  // after the stages: the state, two tiles of tokens, decays
  static constexpr int kState = kKeys * kStateValues * 2;
  static constexpr int kRest = kState + 2 * kStateRowsBytes + 2 * static_cast<int>(sizeof(DeltaDecays));
  static constexpr int kForwardBytes = 2 * kForward + kRest,
                       kBackwardBytes = kBackwardStages * kBackward + kRest;
};

// A block keeps its part of a state in registers, and knows where that part lies.
template <int kKeys>
struct DeltaState {
  static constexpr int kRows = kKeys / 4, kTiles = kRows / 16;
  float value[kTiles][kStateColumns][4];

  template <class Body>
  LONGHAUL_DEVICE void each(const Body& body) {  // of (value, row, column)
    LONGHAUL_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      LONGHAUL_UNROLL
      for (int column = 0; column < kStateColumns; ++column) {
        LONGHAUL_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place place = c_place(lane_index(), i);
          body(value[tile][column][i], warp_index() * kRows + tile * 16 + place.row, column * 8 + place.col);
        }
      }
    }
  }
  // From and to [keys, values] in memory, columns from value0 on; null: zeros, nowhere.
  LONGHAUL_DEVICE void enter(const float* from, int keys, int values, int value0) {
    each([&](float& x, int row, int col) {
      const bool there = from != nullptr && row < keys && value0 + col < values;
      x = there ? from[static_cast<int64_t>(row) * values + value0 + col] : 0.f;
    });
  }
  LONGHAUL_DEVICE void leave(float* to, int keys, int values, int value0) {
    if (to == nullptr) return;
    each([&](float& x, int row, int col) {
      if (row < keys && value0 + col < values) to[static_cast<int64_t>(row) * values + value0 + col] = x;
    });
  }
  LONGHAUL_DEVICE void put(Tile<kStateValues> tile) const {
    LONGHAUL_UNROLL
    for (int t = 0; t < kTiles; ++t) put_rows(tile, warp_index() * kRows + t * 16, 0, value[t]);
  }
  LONGHAUL_DEVICE void scale(float factor) {
    each([&](float& x, int, int) { x *= factor; });
  }
  // += (factors ⊙ left)ᵀ right over the tokens of the chunk
  LONGHAUL_DEVICE void add(Tile<kKeys> left, const float* factors, Tile<kStateValues> right) {
    LONGHAUL_ROLL
    for (int token = 0; token < kChunk; token += 16) {
      LONGHAUL_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        FragmentA a = load_a_transposed(left, token, warp_index() * kRows + t * 16);
        scale_tokens(a, factors + token);
        add_product(value[t], a, right, token, 0);
      }
    }
  }
};

// The rounded state to memory, by all threads.
template <int kKeys>
LONGHAUL_DEVICE void store_state(Tile<kStateValues> tile, Bf16* to, int keys, int values, int value0) {
  constexpr int kUnits = kStateValues / kUnit;
  for (int n = static_cast<int>(threadIdx.x); n < kKeys * kUnits; n += kStatesThreads) {
    const int row = n / kUnits, col = n % kUnits * kUnit, left = values - value0 - col;
    if (row >= keys || left <= 0) continue;
    const Bf16* from = tile.at(row, col);
    Bf16* out = to + static_cast<int64_t>(row) * values + value0 + col;
    if (left >= kUnit && is_aligned(out)) {
      *reinterpret_cast<Unit*>(out) = *reinterpret_cast<const Unit*>(from);
    } else {
      for (int j = 0; j < kUnit && j < left; ++j) out[j] = from[j];
    }
  }
}

// The warp's rows of left · state.
template <int kKeys>
LONGHAUL_DEVICE void read_state(float (&c)[kStateColumns][4], Tile<kKeys> left, Tile<kStateValues> state) {
  LONGHAUL_ROLL
  for (int key = 0; key < kKeys; key += 16)
    add_product(c, load_a(left, warp_index() * 16, key), state, key, 0);
}

template <int kKeys>
LONGHAUL_KERNEL(kStatesThreads)
delta_states_kernel(Delta in, float* final) {
  LONGHAUL_SHARED(shared);
  using Shared = DeltaShared<kKeys>;
  unsigned char* const rest = shared + 2 * Shared::kForward;
  const Tile<kStateValues> state_tile{reinterpret_cast<Bf16*>(rest)},
      lacking{reinterpret_cast<Bf16*>(rest + Shared::kState)},
      residual{reinterpret_cast<Bf16*>(rest + Shared::kState + kStateRowsBytes)};
  const auto decays_of = [&](int step) -> DeltaDecays& {
    return reinterpret_cast<DeltaDecays*>(rest + Shared::kState + 2 * kStateRowsBytes)[step % 2];
  };
  const auto stage = [&](int step, int offset) {
    return reinterpret_cast<Bf16*>(shared + step % 2 * Shared::kForward + offset);
  };
  const auto k_tile = [&](int step) { return Tile<kKeys>{stage(step, 0)}; };
  const auto t_tile = [&](int step) { return Tile<kChunk>{stage(step, Shared::kRowsBytes)}; };
  const auto v_tile = [&](int step) {
    return Tile<kStateValues>{stage(step, Shared::kRowsBytes + kTileBytes)};
  };
  const ChunkedBlock place =
      chunked_block(blockIdx.x, in.heads, static_cast<int>(divide_up(in.v.width, kStateValues)));
  const int head = place.head, value0 = place.slice * kStateValues, row0 = warp_index() * 16;
  const int first = in.document_chunks[place.part], chunks = in.document_chunks[place.part + 1] - first;
  const auto load = [&](int step) {
    if (step < chunks) {
      const Chunk chunk = in.chunks[first + step];
      load_rows(k_tile(step), in.k, chunk, head, 0);
      load_pairs(t_tile(step), in, in.inverses, first + step, head);
      load_rows(v_tile(step), in.v, chunk, head, value0);
      if (warp_index() == 0) read_decays(in, chunk, head, decays_of(step));
    }
    end_copy_group();
  };
  const int64_t of_document = (static_cast<int64_t>(place.part) * in.heads + head) * in.k.width * in.v.width;
  DeltaState<kKeys> state;
  state.enter(in.initial != nullptr ? in.initial + of_document : nullptr, in.k.width, in.v.width, value0);
  load(0);
  for (int step = 0; step < chunks; ++step) {
    load(step + 1);
    state.put(state_tile);
    wait_for_copies<1>();
    __syncthreads();
    const DeltaDecays& decays = decays_of(step);
    const Chunk chunk = in.chunks[first + step];
    store_state<kKeys>(state_tile, in.states + state_base(in, first + step, head), in.k.width, in.v.width,
                       value0);
    float c[kStateColumns][4] = {};
    read_state(c, k_tile(step), state_tile);
    const Tile<kStateValues> v = v_tile(step);
    each_place(c, row0, 0,
               [&](float& x, int row, int col) { x = to_float(*v.at(row, col)) - decays.begin[row] * x; });
    put_rows(lacking, row0, 0, c);
    __syncthreads();
    for (int other = 0; other <= warp_index(); ++other)
      add_product(c, load_a(t_tile(step), row0, other * 16), lacking, other * 16, 0);
    Bf16* out = in.residuals + (chunk.first * in.heads + head) * in.v.width + value0;
    store_rows(residual, row0, 0, c, chunk.rows, in.v.width - value0,
               [&](int row) { return out + static_cast<int64_t>(row) * in.heads * in.v.width; });
    __syncthreads();
    state.scale(decays.whole);
    state.add(k_tile(step), decays.write, residual);
    __syncthreads();
  }
  wait_for_copies<0>();
  state.leave(final != nullptr ? final + of_document : nullptr, in.k.width, in.v.width, value0);
}

// d_v leaves [T, H, values]; d_final and d_initial as the states of documents, or null.
template <int kKeys>
LONGHAUL_KERNEL(kStatesThreads)
delta_states_backward_kernel(Delta in, const float* d_final, Bf16* d_v, float* d_initial) {
  LONGHAUL_SHARED(shared);
  using Shared = DeltaShared<kKeys>;
  constexpr int kStages = Shared::kBackwardStages, kRowsBytes = Shared::kRowsBytes;
  unsigned char* const rest = shared + kStages * Shared::kBackward;
  const Tile<kStateValues> state_tile{reinterpret_cast<Bf16*>(rest)},
      d_residual{reinterpret_cast<Bf16*>(rest + Shared::kState)},
      d_values{reinterpret_cast<Bf16*>(rest + Shared::kState + kStateRowsBytes)};
  const auto decays_of = [&](int step) -> DeltaDecays& {
    return reinterpret_cast<DeltaDecays*>(rest + Shared::kState + 2 * kStateRowsBytes)[step % 2];
  };
  const auto stage = [&](int step, int offset) {
    return reinterpret_cast<Bf16*>(shared + step % kStages * Shared::kBackward + offset);
  };
  const auto k_tile = [&](int step) { return Tile<kKeys>{stage(step, 0)}; };
  const auto q_tile = [&](int step) { return Tile<kKeys>{stage(step, kRowsBytes)}; };
  const auto t_tile = [&](int step) { return Tile<kChunk>{stage(step, 2 * kRowsBytes)}; };
  const auto p_tile = [&](int step) { return Tile<kChunk>{stage(step, 2 * kRowsBytes + kTileBytes)}; };
  const auto d_o_tile = [&](int step) {
    return Tile<kStateValues>{stage(step, 2 * kRowsBytes + 2 * kTileBytes)};
  };
  const ChunkedBlock place =
      chunked_block(blockIdx.x, in.heads, static_cast<int>(divide_up(in.v.width, kStateValues)));
  const int head = place.head, value0 = place.slice * kStateValues, row0 = warp_index() * 16;
  const int first = in.document_chunks[place.part], chunks = in.document_chunks[place.part + 1] - first;
  const auto load = [&](int step) {
    if (step < chunks) {
      const int at = first + chunks - 1 - step;
      const Chunk chunk = in.chunks[at];
      load_rows(k_tile(step), in.k, chunk, head, 0);
      load_rows(q_tile(step), in.q, chunk, head, 0);
      load_pairs(t_tile(step), in, in.inverses, at, head);
      load_pairs(p_tile(step), in, in.scores, at, head);
      load_rows(d_o_tile(step), in.d_o, chunk, head, value0);
      if (warp_index() == 0) read_decays(in, chunk, head, decays_of(step));
    }
    end_copy_group();
  };
  const int64_t of_document = (static_cast<int64_t>(place.part) * in.heads + head) * in.k.width * in.v.width;
  DeltaState<kKeys> state;
  state.enter(d_final != nullptr ? d_final + of_document : nullptr, in.k.width, in.v.width, value0);
  if (kStages == 2) load(0);
  for (int step = 0; step < chunks; ++step) {
    load(step + kStages - 1);
    state.put(state_tile);
    wait_for_copies<kStages - 1>();
    __syncthreads();
    const DeltaDecays& decays = decays_of(step);
    const int at = first + chunks - 1 - step;
    const Chunk chunk = in.chunks[at];
    store_state<kKeys>(state_tile, in.d_states + state_base(in, at, head), in.k.width, in.v.width, value0);
    float c[kStateColumns][4] = {};
    read_state(c, k_tile(step), state_tile);
    each_place(c, row0, 0, [&](float& x, int row, int) { x *= decays.write[row]; });
    for (int other = warp_index(); other < kChunk / 16; ++other)
      add_product(c, load_a_transposed(p_tile(step), other * 16, row0), d_o_tile(step), other * 16, 0);
    put_rows(d_residual, row0, 0, c);
    __syncthreads();
    for (int other = warp_index(); other < kChunk / 16; ++other)
      add_product(c, load_a_transposed(t_tile(step), other * 16, row0), d_residual, other * 16, 0);
    Bf16* out = d_v + (chunk.first * in.heads + head) * in.v.width + value0;
    store_rows(d_values, row0, 0, c, chunk.rows, in.v.width - value0,
               [&](int row) { return out + static_cast<int64_t>(row) * in.heads * in.v.width; });
    __syncthreads();
    state.scale(decays.whole);
    state.add(q_tile(step), decays.read, d_o_tile(step));
    state.add(k_tile(step), decays.forget, d_values);
    __syncthreads();
  }
  wait_for_copies<0>();
  state.leave(d_initial != nullptr ? d_initial + of_document : nullptr, in.k.width, in.v.width, value0);
}

}  // namespace longhaul::kernels::cuda
