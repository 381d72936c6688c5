// Kernels of the two-pass form (two_pass.h): prepare, states, scan, outputs. Blocks take slices of 64 key or
// value channels, so one instantiation serves all sizes.
#pragma once

#include "kernels/linear_recurrence/cuda/two_pass.h"

namespace longhaul::kernels::cuda {

// A block: a chunk, a head, a slice of the keys; a thread: a quarter of the tokens of a channel.
LONGHAUL_KERNEL(kTwoPassThreads) prepare_kernel(TwoPass in, Bf16* q_scaled, Bf16* k_scaled) {
  LONGHAUL_SHARED(shared);
  float* products = reinterpret_cast<float*>(shared);  // [4][kSlice]
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, slices_of(in.q.width));
  const Chunk chunk = in.chunks[place.part];
  const Column mine = column_of_thread();
  const int channel = place.slice * kSlice + mine.channel;
  const bool inside = channel < in.q.width;
  float lambda[kQuarter], product = 1;
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int t = mine.first + i;
    lambda[i] = t < chunk.rows && inside ? decay_of(in, token_of(in, chunk, t), place.head, channel) : 1.f;
    product *= lambda[i];
  }
  products[mine.first / kQuarter * kSlice + mine.channel] = product;
  __syncthreads();
  if (!inside) return;
  float before = 1, after = 1;
  for (int first = 0; first < kChunk; first += kQuarter) {
    const float of_quarter = products[first / kQuarter * kSlice + mine.channel];
    if (first < mine.first) before *= of_quarter;
    if (first > mine.first) after *= of_quarter;
  }
  if (mine.first == 0)
    in.decays[(static_cast<int64_t>(place.part) * in.heads + place.head) * in.q.width + channel] =
        product * after;
  LONGHAUL_UNROLL
  for (int i = kQuarter - 1; i >= 0; --i) {
    const int64_t token = token_of(in, chunk, mine.first + i);
    if (mine.first + i < chunk.rows) {
      k_scaled[(token * in.heads + place.head) * in.q.width + channel] =
          from_float<Bf16>(key_of(in, token, place.head, channel) * after);
    }
    after *= lambda[i];
  }
  LONGHAUL_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int64_t token = token_of(in, chunk, mine.first + i);
    before *= lambda[i];
    if (mine.first + i < chunk.rows) {
      q_scaled[(token * in.heads + place.head) * in.q.width + channel] =
          from_float<Bf16>(in.scale * to_float(in.q.at(token, place.head)[channel]) * before);
    }
  }
}

// One direction of the states: S along the chunks from k̃ and v, or D against them from q̃ and do.
struct StatePass {
  Rows left, right;
  const float* initial;  // [N, H, keys, values] or null: zeros
  float* final;          // or null
  Bf16* out;             // before each chunk of the pass
  bool against;
};
constexpr int kStateThreads = 128;

LONGHAUL_DEVICE bool begins_pass(const StatePass& pass, const Segment& segment) {
  return pass.against ? segment.last != 0 : segment.index == 0;
}
LONGHAUL_DEVICE bool ends_pass(const StatePass& pass, const Segment& segment) {
  return pass.against ? segment.index == 0 : segment.last != 0;
}

// A block: a segment, a head, 64 × 64 of the state in the registers of four warps. kSegments: only what a
// segment adds, from zero.
template <bool kSegments>
LONGHAUL_KERNEL(kStateThreads)
states_kernel(TwoPass in, StatePass pass) {
  LONGHAUL_SHARED(shared);
  const int value_slices = slices_of(in.v.width);
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, slices_of(in.q.width) * value_slices);
  const int key0 = place.slice / value_slices * kSlice, value0 = place.slice % value_slices * kSlice,
            head = place.head;
  const Segment segment = in.segments[place.part];
  if (kSegments && ends_pass(pass, segment)) return;
  const int first_chunk = in.segment_chunks[place.part],
            chunks = in.segment_chunks[place.part + 1] - first_chunk;
  const auto chunk_at = [&](int step) {
    return pass.against ? first_chunk + chunks - 1 - step : first_chunk + step;
  };
  const auto tile = [&](int step, int which) {
    return Tile<kSlice>{reinterpret_cast<Bf16*>(shared) + (step % 2 * 2 + which) * kTileValues};
  };
  const Tile<kSlice> leaving{reinterpret_cast<Bf16*>(shared) + 4 * kTileValues};
  const auto load = [&](int step) {
    if (step < chunks) {
      const Chunk chunk = in.chunks[chunk_at(step)];
      load_chunk(tile(step, 0), in, pass.left, chunk, head, key0 / kSlice);
      load_chunk(tile(step, 1), in, pass.right, chunk, head, value0 / kSlice);
    }
    end_copy_group();
  };
  const int row0 = warp_index() * 16;
  const int64_t area = static_cast<int64_t>(in.q.width) * in.v.width;
  const int64_t of_document = (static_cast<int64_t>(segment.document) * in.heads + head) * area;
  float* saved = in.segment_states + (static_cast<int64_t>(place.part) * in.heads + head) * area;
  float state[kSlice / 8][4], decay[2], total[2] = {1, 1};
  const auto each = [&](const auto& body) {  // the elements of the state that exist, by their offset in it
    LONGHAUL_UNROLL
    for (int column = 0; column < kSlice / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Place at = c_place(lane_index(), i);
        const int row = key0 + row0 + at.row, col = value0 + column * 8 + at.col;
        if (row < in.q.width && col < in.v.width)
          body(state[column][i], static_cast<int64_t>(row) * in.v.width + col);
      }
    }
  };
  LONGHAUL_UNROLL
  for (int column = 0; column < kSlice / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) state[column][i] = 0;
  }
  if (!kSegments) {
    const float* entering = !begins_pass(pass, segment) ? saved
                            : pass.initial != nullptr   ? pass.initial + of_document
                                                        : nullptr;
    if (entering != nullptr) each([&](float& x, int64_t at) { x = entering[at]; });
  }
  load(0);
  for (int step = 0; step < chunks; ++step) {
    load(step + 1);
    const int chunk = chunk_at(step);
    if (!kSegments) {
      Bf16* out = pass.out + state_base(in, chunk, head) + value0;
      store_rows(leaving, row0, 0, state, in.q.width - key0, in.v.width - value0,
                 [&](int row) { return out + static_cast<int64_t>(key0 + row) * in.v.width; });
    }
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = key0 + row0 + c_place(lane_index(), 2 * half).row;
      decay[half] = row < in.q.width
                        ? in.decays[(static_cast<int64_t>(chunk) * in.heads + head) * in.q.width + row]
                        : 1.f;
      total[half] *= decay[half];
    }
    LONGHAUL_UNROLL
    for (int column = 0; column < kSlice / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) state[column][i] *= decay[i >> 1];
    }
    wait_for_copies<1>();
    __syncthreads();
    LONGHAUL_ROLL
    for (int token = 0; token < kChunk; token += 16) {
      const FragmentA a = load_a_transposed(tile(step, 0), token, row0);
      LONGHAUL_UNROLL
      for (int column = 0; column < kSlice / 8; column += 2) {
        FragmentB b[2];
        load_b_transposed(b, tile(step, 1), token, column * 8);
        multiply_add(state[column], a, b[0]);
        multiply_add(state[column + 1], a, b[1]);
      }
    }
    __syncthreads();
  }
  wait_for_copies<0>();
  if (kSegments) {
    each([&](float& x, int64_t at) { saved[at] = x; });
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = key0 + row0 + c_place(lane_index(), 2 * half).row;
      const bool mine = value0 == 0 && lane_index() % 4 == 0 && row < in.q.width;
      if (mine)
        in.segment_decays[(static_cast<int64_t>(place.part) * in.heads + head) * in.q.width + row] =
            total[half];
    }
  } else if (ends_pass(pass, segment) && pass.final != nullptr) {
    each([&](float& x, int64_t at) { pass.final[of_document + at] = x; });
  }
}

// Turns what each segment adds into what enters it, as scan_kernel does, with a decay per row. A thread per
// element of a head's state.
LONGHAUL_KERNEL(256) state_scan_kernel(TwoPass in, StatePass pass) {
  const int64_t area = static_cast<int64_t>(in.q.width) * in.v.width, blocks = divide_up(area, 256),
                element = blockIdx.x % blocks * 256 + threadIdx.x;
  const int head = static_cast<int>(blockIdx.x / blocks % in.heads),
            document = static_cast<int>(blockIdx.x / blocks / in.heads);
  if (element >= area) return;
  float x = pass.initial != nullptr
                ? pass.initial[(static_cast<int64_t>(document) * in.heads + head) * area + element]
                : 0.f;
  const int first = in.document_segments[document], count = in.document_segments[document + 1] - first;
  for (int i = 0; i < count; ++i) {
    const int64_t of_segment =
        static_cast<int64_t>(pass.against ? first + count - 1 - i : first + i) * in.heads + head;
    float* here = in.segment_states + of_segment * area + element;
    const float added = i + 1 < count ? *here : 0.f;
    *here = x;
    if (i + 1 < count) x = in.segment_decays[of_segment * in.q.width + element / in.v.width] * x + added;
  }
}

// o = q̃ S + scale · A v, or with `transposed` k̃ D + scale · Aᵀ do.
struct OutputPass {
  Rows left, right;
  const Bf16* states;
  Bf16* out;        // [T, H, values]
  float* out_fp32;  // instead of `out`, where it is not null
  bool transposed;
};

// The part of A (Aᵀ) of the warp's 16 rows and, in each tile of 16 columns, of 8 of them: a[tile] += F Fᵀ
// where tokens are partners.
LONGHAUL_DEVICE void add_level(float (&a)[4][4], Tile<kSlice> rows, Tile<kSlice> columns, int level,
                               bool transposed) {
  const int lane = lane_index(), row_tile = warp_index() % 4, part = warp_index() / 4 * 8;
  LONGHAUL_UNROLL
  for (int other = 0; other < 4; ++other) {
    const bool self = level < 0, takes = self || level < 4 ? other == row_tile
                                                           : tiles_meet(row_tile, other, level) &&
                                                                 (other < row_tile) != transposed;
    if (!takes) continue;
    float x[4] = {};
    LONGHAUL_UNROLL
    for (int key = 0; key < kSlice; key += 32) {
      uint32_t reg[4];
      load_matrices<false>(reg, columns.at(other * 16 + part + lane % 8, key + lane / 8 * 8));
      multiply_add(x, load_a(rows, row_tile * 16, key), FragmentB{{reg[0], reg[1]}});
      multiply_add(x, load_a(rows, row_tile * 16, key + 16), FragmentB{{reg[2], reg[3]}});
    }
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Place place = c_place(lane, i);
      const int row = place.row, col = part + place.col;
      const bool selected =
          self ? row == col : level >= 4 || (tokens_meet(row, col, level) && (row > col) != transposed);
      a[other][i] += selected ? x[i] : 0.f;
    }
  }
}

// A (or Aᵀ), scaled, in bf16: tiles on and below (above) the diagonal.
LONGHAUL_DEVICE void scores(Tile<kSlice> out, const TwoPass& in, const Chunk& chunk, int head,
                            bool transposed, unsigned char* memory) {
  const Tile<kSlice> q{reinterpret_cast<Bf16*>(memory)}, k{q.data + kTileValues},
      rows{q.data + 2 * kTileValues};
  float* lambda = reinterpret_cast<float*>(q.data + 3 * kTileValues);
  const Column mine = column_of_thread();
  float a[4][4] = {};
  for (int slice = 0; slice < slices_of(in.q.width); ++slice) {
    load_slice(q, k, lambda, in, chunk, head, slice);
    wait_for_copies<0>();
    __syncthreads();
    add_level(a, transposed ? k : q, transposed ? q : k, -1, transposed);
    LONGHAUL_ROLL
    for (int level = kLevels - 1; level >= 0; --level) {
      float factor[kQuarter];
      level_factors(lambda + mine.channel, level, mine.first, factor);
      fill_level(rows, q, k, level, mine, factor);
      __syncthreads();
      add_level(a, rows, rows, level, transposed);
      __syncthreads();
    }
  }
  LONGHAUL_UNROLL
  for (int other = 0; other < 4; ++other) {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Place place = c_place(lane_index(), 2 * half);
      uint32_t* to = reinterpret_cast<uint32_t*>(
          out.at(warp_index() % 4 * 16 + place.row, other * 16 + warp_index() / 4 * 8 + place.col));
      *to = pack(in.scale * a[other][2 * half], in.scale * a[other][2 * half + 1]);
    }
  }
}

// A block: a chunk and a head. Warp w computes rows 16 (w % 4) … and columns 32 (w / 4) … of each slice of
// the values.
LONGHAUL_KERNEL(kTwoPassThreads) outputs_kernel(TwoPass in, OutputPass pass) {
  LONGHAUL_SHARED(shared);
  const Tile<kSlice> a{reinterpret_cast<Bf16*>(shared)}, leaving{a.data + kTileValues};
  const auto tile = [&](int step, int which) {
    return Tile<kSlice>{a.data + (2 + step % 2 * 3 + which) * kTileValues};
  };
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, 1);
  const Chunk chunk = in.chunks[place.part];
  const int head = place.head, row_tile = warp_index() % 4, col0 = warp_index() / 4 * 32;
  scores(a, in, chunk, head, pass.transposed, shared + 2 * kTileBytes);
  __syncthreads();
  const int key_slices = slices_of(in.q.width), steps = key_slices * slices_of(in.v.width);
  const auto load = [&](int step) {
    if (step < steps) {
      load_chunk(tile(step, 0), in, pass.left, chunk, head, step % key_slices);
      load_state(tile(step, 1), in, pass.states, place.part, head, step % key_slices, step / key_slices);
      if (step % key_slices + 1 == key_slices)
        load_chunk(tile(step, 2), in, pass.right, chunk, head, step / key_slices);
    }
    end_copy_group();
  };
  float o[4][4] = {};
  const auto add = [&](const FragmentA& left, Tile<kSlice> right, int depth) {
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; column += 2) {
      FragmentB b[2];
      load_b_transposed(b, right, depth, col0 + column * 8);
      multiply_add(o[column], left, b[0]);
      multiply_add(o[column + 1], left, b[1]);
    }
  };
  load(0);
  for (int step = 0; step < steps; ++step) {
    load(step + 1);
    wait_for_copies<1>();
    __syncthreads();
    LONGHAUL_UNROLL
    for (int key = 0; key < kSlice; key += 16)
      add(load_a(tile(step, 0), row_tile * 16, key), tile(step, 1), key);
    if (step % key_slices + 1 == key_slices) {
      const int first = pass.transposed ? row_tile : 0, last = pass.transposed ? 3 : row_tile;
      for (int other = first; other <= last; ++other)
        add(load_a(a, row_tile * 16, other * 16), tile(step, 2), other * 16);
      const int value0 = step / key_slices * kSlice;
      const auto offset = [&](int row) {
        return (token_of(in, chunk, row) * in.heads + head) * pass.right.width + value0;
      };
      if (pass.out_fp32 == nullptr) {
        store_rows(leaving, row_tile * 16, col0, o, chunk.rows, pass.right.width - value0 - col0,
                   [&](int row) { return pass.out + offset(row) + col0; });
      }
      LONGHAUL_UNROLL
      for (int column = 0; column < 4; ++column) {
        LONGHAUL_UNROLL
        for (int i = 0; i < 4; ++i) {
          const Place at = c_place(lane_index(), i);
          const int row = row_tile * 16 + at.row, col = col0 + column * 8 + at.col;
          if (pass.out_fp32 != nullptr && row < chunk.rows && value0 + col < pass.right.width)
            pass.out_fp32[offset(row) + col] = o[column][i];
          o[column][i] = 0;
        }
      }
    }
    __syncthreads();
  }
  wait_for_copies<0>();
}

}  // namespace longhaul::kernels::cuda
