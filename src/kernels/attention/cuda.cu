// See cuda.h. Scores are kept in units of log 2: s = q·k · scale · log₂e, p = 2^(s − m).
#include "kernels/attention/cuda.h"

#include "kernels/attention/decode_kernels.h"
#include "kernels/attention/kernel_parts.h"

namespace longhaul::kernels::cuda {
namespace {

template <int kHead>
LONGHAUL_DEVICE void load_side(Tile<kHead> tile, const Side& side, int64_t token, int head, int rows) {
  load_tile<kKeyRows>(tile, side.at(token, head), side.stride(), rows, side.width, side.aligned);
}

template <int kHead>
LONGHAUL_KERNEL(query_rows(kHead) * 2)
forward_kernel(Arguments in) {
  LONGHAUL_SHARED(shared);
  constexpr int kRows = query_rows(kHead);
  const AttentionTile tile = in.tiles[blockIdx.x / static_cast<unsigned>(in.heads)];
  const int head = static_cast<int>(blockIdx.x) % in.heads, key_head = head / in.group,
            row0 = warp_index() * 16;
  const Tile<kHead> q{reinterpret_cast<Bf16*>(shared)};
  const auto k_tile = [&](int step) {
    return Tile<kHead>{q.data + (kRows + step % 2 * 2 * kKeyRows) * kHead};
  };
  const auto v_tile = [&](int step) {
    return Tile<kHead>{q.data + (kRows + (step % 2 * 2 + 1) * kKeyRows) * kHead};
  };
  const Range range = keys_of_tile(tile, in.window);
  const int first_step = range.first / kKeyRows,
            steps =
                range.last > range.first ? static_cast<int>(divide_up(range.last, kKeyRows)) - first_step : 0;
  const auto load = [&](int step) {
    if (step < steps) {
      const int key = (first_step + step) * kKeyRows,
                rows = tile.others - key < kKeyRows ? tile.others - key : kKeyRows;
      load_side(k_tile(step), in.k, tile.other_begin + key, key_head, rows);
      load_side(v_tile(step), in.v, tile.other_begin + key, key_head, rows);
    }
    end_copy_group();
  };
  load_tile<kRows>(q, in.q.at(tile.begin, head), in.q.stride(), tile.rows, in.q.width, in.q.aligned);
  load(0);

  float o[kHead / 8][4] = {}, largest[2] = {negative_infinity(), negative_infinity()}, sum[2] = {0, 0};
  for (int step = 0; step < steps; ++step) {
    load(step + 1);
    wait_for_copies<1>();
    __syncthreads();
    const int key = (first_step + step) * kKeyRows;
    float s[kKeyRows / 8][4];
    multiply_rows(s, q, row0, k_tile(step));
    LONGHAUL_UNROLL
    for (int column = 0; column < kKeyRows / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) s[column][i] *= in.scale * kLog2E;
    }
    if (!all_visible(tile, key, in.window) || row0 + 16 > tile.rows)
      mask_scores(s, tile, row0, key, in.window);
    softmax_step(s, largest, sum, o);
    multiply_columns(o, s, v_tile(step), 0);
    __syncthreads();
  }
  wait_for_copies<0>();
  __syncthreads();  // q is about to be written over: other threads' copies of it must have landed
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    sum[half] += shuffle_xor(sum[half], 1);
    sum[half] += shuffle_xor(sum[half], 2);
    const float inverse = sum[half] > 0 ? 1.f / sum[half] : 0.f;
    LONGHAUL_UNROLL
    for (int column = 0; column < kHead / 8; ++column) {
      o[column][2 * half] *= inverse;
      o[column][2 * half + 1] *= inverse;
    }
    const int row = row0 + c_place(lane_index(), 2 * half).row;
    if (lane_index() % 4 == 0 && row < tile.rows) {
      in.logsumexp_out[(tile.begin + row) * in.heads + head] =
          sum[half] > 0 ? largest[half] * kLn2 + logf(sum[half]) : negative_infinity();
    }
  }
  store_rows(q, row0, 0, o, tile.rows, in.v.width,
             [&](int row) { return in.o + ((tile.begin + row) * in.heads + head) * in.v.width; });
}

// do·o − dℓ of each token and head: what is taken off dp in the softmax's gradient. A warp each.
LONGHAUL_KERNEL(128)
row_dot_kernel(const Bf16* o, const Bf16* d_o, const float* d_logsumexp, float* out, int64_t count,
               int width) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 4 + warp_index();
  if (row >= count) return;
  float sum = 0;
  for (int c = lane_index(); c < width; c += kWarp)
    sum += to_float(o[row * width + c]) * to_float(d_o[row * width + c]);
  sum = warp_sum(sum);
  if (lane_index() == 0) out[row] = sum - (d_logsumexp != nullptr ? d_logsumexp[row] : 0.f);
}

// dk and dv of a tile of keys, over all query heads of the group and all queries that see it. Everything is
// transposed: rows are keys. With kSplit 2, two warps share 16 keys and each holds half of the columns.
template <int kHead>
LONGHAUL_KERNEL(kHead <= 128 ? 128 : 256)
key_gradient_kernel(Arguments in) {
  LONGHAUL_SHARED(shared);
  constexpr int kStages = backward_stages(kHead), kColumns = (kHead <= 128 ? kHead : kHead / 2) / 8;
  const int key_heads = in.heads / in.group;
  const AttentionTile tile = in.tiles[blockIdx.x / static_cast<unsigned>(key_heads)];
  const int key_head = static_cast<int>(blockIdx.x) % key_heads, row0 = warp_index() % 4 * 16,
            col0 = warp_index() / 4 * kColumns * 8;
  const Tile<kHead> k{reinterpret_cast<Bf16*>(shared)}, v{k.data + kKeyRows * kHead};
  const auto q_tile = [&](int step) {
    return Tile<kHead>{v.data + (1 + step % kStages * 2) * kKeyRows * kHead};
  };
  const auto d_o_tile = [&](int step) {
    return Tile<kHead>{v.data + (2 + step % kStages * 2) * kKeyRows * kHead};
  };
  float* logsumexp = reinterpret_cast<float*>(k.data + (2 + 2 * kStages) * kKeyRows * kHead);
  float* row_dots = logsumexp + kKeyRows;
  const Range range = queries_of_tile(tile, in.window);
  const int first_step = range.first / kKeyRows;
  const int per_head =
                range.last > range.first ? static_cast<int>(divide_up(range.last, kKeyRows)) - first_step : 0,
            steps = per_head * in.group;
  const auto query_of = [&](int step) { return (first_step + step % per_head) * kKeyRows; };
  const auto head_of = [&](int step) { return key_head * in.group + step / per_head; };
  const auto load = [&](int step) {
    if (step < steps) {
      const int query = query_of(step),
                rows = tile.others - query < kKeyRows ? tile.others - query : kKeyRows;
      load_side(q_tile(step), in.q, tile.other_begin + query, head_of(step), rows);
      load_side(d_o_tile(step), in.d_o, tile.other_begin + query, head_of(step), rows);
    }
    end_copy_group();
  };
  load_side(k, in.k, tile.begin, key_head, tile.rows);
  load_side(v, in.v, tile.begin, key_head, tile.rows);
  if (kStages == 2) load(0);

  float d_k[kColumns][4] = {}, d_v[kColumns][4] = {};
  for (int step = 0; step < steps; ++step) {
    load(step + kStages - 1);
    const int query = query_of(step);
    if (threadIdx.x < kKeyRows && query + static_cast<int>(threadIdx.x) < tile.others) {
      const int64_t at = (tile.other_begin + query + threadIdx.x) * in.heads + head_of(step);
      logsumexp[threadIdx.x] = in.logsumexp[at] * kLog2E;
      row_dots[threadIdx.x] = in.row_dots[at];
    }
    wait_for_copies<kStages - 1>();
    __syncthreads();
    float p[kKeyRows / 8][4], d_p[kKeyRows / 8][4];
    multiply_rows(p, k, row0, q_tile(step));
    multiply_rows(d_p, v, row0, d_o_tile(step));
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + c_place(lane_index(), 2 * half).row;
      const Range seeing = row < tile.rows
                               ? seeing_queries(tile.first + row, tile.shift, tile.others, in.window)
                               : Range{0, 0};
      LONGHAUL_UNROLL
      for (int column = 0; column < kKeyRows / 8; ++column) {
        LONGHAUL_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int col = column * 8 + c_place(lane_index(), i).col, position = query + col;
          float &x = p[column][2 * half + i], &y = d_p[column][2 * half + i];
          const bool seen = position >= seeing.first && position < seeing.last;
          x = seen ? power_of_two(x * in.scale * kLog2E - logsumexp[col]) : 0.f;
          y = seen ? x * (y - row_dots[col]) : 0.f;
        }
      }
    }
    multiply_columns(d_v, p, d_o_tile(step), col0);
    multiply_columns(d_k, d_p, q_tile(step), col0);
    __syncthreads();
  }
  wait_for_copies<0>();
  __syncthreads();
  LONGHAUL_UNROLL
  for (int column = 0; column < kColumns; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) d_k[column][i] *= in.scale;
  }
  store_rows(k, row0, col0, d_k, tile.rows, in.k.width - col0, [&](int row) {
    return in.d_k + ((tile.begin + row) * key_heads + key_head) * in.k.width + col0;
  });
  store_rows(v, row0, col0, d_v, tile.rows, in.v.width - col0, [&](int row) {
    return in.d_v + ((tile.begin + row) * key_heads + key_head) * in.v.width + col0;
  });
}

// dq of a tile of 64 queries of one head, over all keys that it sees.
template <int kHead>
LONGHAUL_KERNEL(128)
query_gradient_kernel(Arguments in) {
  LONGHAUL_SHARED(shared);
  constexpr int kStages = backward_stages(kHead);
  const AttentionTile tile = in.tiles[blockIdx.x / static_cast<unsigned>(in.heads)];
  const int head = static_cast<int>(blockIdx.x) % in.heads, key_head = head / in.group,
            row0 = warp_index() * 16;
  const Tile<kHead> q{reinterpret_cast<Bf16*>(shared)}, d_o{q.data + kKeyRows * kHead};
  const auto k_tile = [&](int step) {
    return Tile<kHead>{d_o.data + (1 + step % kStages * 2) * kKeyRows * kHead};
  };
  const auto v_tile = [&](int step) {
    return Tile<kHead>{d_o.data + (2 + step % kStages * 2) * kKeyRows * kHead};
  };
  const Range range = keys_of_tile(tile, in.window);
  const int first_step = range.first / kKeyRows,
            steps =
                range.last > range.first ? static_cast<int>(divide_up(range.last, kKeyRows)) - first_step : 0;
  const auto load = [&](int step) {
    if (step < steps) {
      const int key = (first_step + step) * kKeyRows,
                rows = tile.others - key < kKeyRows ? tile.others - key : kKeyRows;
      load_side(k_tile(step), in.k, tile.other_begin + key, key_head, rows);
      load_side(v_tile(step), in.v, tile.other_begin + key, key_head, rows);
    }
    end_copy_group();
  };
  load_side(q, in.q, tile.begin, head, tile.rows);
  load_side(d_o, in.d_o, tile.begin, head, tile.rows);
  if (kStages == 2) load(0);
  float logsumexp[2], row_dot[2];
  LONGHAUL_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + c_place(lane_index(), 2 * half).row;
    const int64_t at = (tile.begin + (row < tile.rows ? row : 0)) * in.heads + head;
    const float of_row = in.logsumexp[at] * kLog2E;
    logsumexp[half] = of_row == negative_infinity() ? 0.f : of_row;  // nothing visible: every score is masked
    row_dot[half] = in.row_dots[at];
  }

  float d_q[kHead / 8][4] = {};
  for (int step = 0; step < steps; ++step) {
    load(step + kStages - 1);
    wait_for_copies<kStages - 1>();
    __syncthreads();
    const int key = (first_step + step) * kKeyRows;
    float s[kKeyRows / 8][4], d_p[kKeyRows / 8][4];
    multiply_rows(s, q, row0, k_tile(step));
    multiply_rows(d_p, d_o, row0, v_tile(step));
    if (!all_visible(tile, key, in.window) || row0 + 16 > tile.rows)
      mask_scores(s, tile, row0, key, in.window);
    LONGHAUL_UNROLL
    for (int column = 0; column < kKeyRows / 8; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        s[column][i] = power_of_two(s[column][i] * in.scale * kLog2E - logsumexp[i >> 1]) *
                       (d_p[column][i] - row_dot[i >> 1]);
      }
    }
    multiply_columns(d_q, s, k_tile(step), 0);
    __syncthreads();
  }
  wait_for_copies<0>();
  __syncthreads();
  LONGHAUL_UNROLL
  for (int column = 0; column < kHead / 8; ++column) {
    LONGHAUL_UNROLL
    for (int i = 0; i < 4; ++i) d_q[column][i] *= in.scale;
  }
  store_rows(q, row0, 0, d_q, tile.rows, in.q.width,
             [&](int row) { return in.d_q + ((tile.begin + row) * in.heads + head) * in.q.width; });
}

Side side_of(const Bf16* data, int heads, int width) {
  return {data, heads, width, width % kUnit == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

Arguments arguments_of(const Attention& p, const AttentionTiles& tiles) {
  Arguments in{};
  in.q = side_of(p.q, p.heads, p.keys);
  in.k = side_of(p.k, p.key_heads, p.keys);
  in.v = side_of(p.v, p.key_heads, p.values);
  in.tiles = tiles.tiles;
  in.heads = p.heads;
  in.group = p.heads / p.key_heads;
  in.window = p.window;
  in.scale = p.scale;
  return in;
}

template <int kHead>
void run_backward(Arguments in, const AttentionTiles& query_tiles, const AttentionTiles& key_tiles,
                  Stream stream) {
  const int bytes = backward_shared_bytes(kHead);
  in.tiles = key_tiles.tiles;
  launch("attention.key_gradient", key_gradient_kernel<kHead>,
         static_cast<int64_t>(key_tiles.count) * in.heads / in.group, kHead <= 128 ? 128 : 256, bytes, stream,
         in);
  in.tiles = query_tiles.tiles;
  launch("attention.query_gradient", query_gradient_kernel<kHead>,
         static_cast<int64_t>(query_tiles.count) * in.heads, 128, bytes, stream, in);
}

}  // namespace

void attention_forward(const Attention& p, const AttentionTiles& tiles, Bf16* o, float* logsumexp,
                       Stream stream) {
  Arguments in = arguments_of(p, tiles);
  in.o = o;
  in.logsumexp_out = logsumexp;
  const int head = padded_head(p.keys, p.values), bytes = forward_shared_bytes(head),
            threads = query_rows(head) * 2;
  const int64_t blocks = static_cast<int64_t>(tiles.count) * p.heads;
  switch (head) {
    case 64:
      return launch("attention.forward", forward_kernel<64>, blocks, threads, bytes, stream, in);
    case 128:
      return launch("attention.forward", forward_kernel<128>, blocks, threads, bytes, stream, in);
    default:
      return launch("attention.forward", forward_kernel<256>, blocks, threads, bytes, stream, in);
  }
}

void attention_delta(const Bf16* o, const Bf16* d_o, const float* d_logsumexp, float* delta, int64_t rows,
                     int width, Stream stream) {
  launch("attention.delta", row_dot_kernel, divide_up(rows, 4), 128, 0, stream, o, d_o, d_logsumexp, delta,
         rows, width);
}

void attention_backward(const Attention& p, const AttentionTiles& query_tiles,
                        const AttentionTiles& key_tiles, const AttentionGradientPointers& gradients,
                        Stream stream) {
  Arguments in = arguments_of(p, {});
  in.d_o = side_of(gradients.d_o, p.heads, p.values);
  in.logsumexp = gradients.logsumexp;
  in.row_dots = gradients.delta;
  in.d_q = gradients.d_q, in.d_k = gradients.d_k, in.d_v = gradients.d_v;
  switch (padded_head(p.keys, p.values)) {
    case 64:
      return run_backward<64>(in, query_tiles, key_tiles, stream);
    case 128:
      return run_backward<128>(in, query_tiles, key_tiles, stream);
    default:
      return run_backward<256>(in, query_tiles, key_tiles, stream);
  }
}

int64_t decode_workspace_bytes(const AttentionDecode& p) {
  return static_cast<int64_t>(p.sequences) * p.heads * divide_up(p.longest, kDecodePart) * (p.values + 2) * 4;
}

void attention_decode(const AttentionDecode& p, Bf16* o, float* logsumexp, void* workspace, Stream stream) {
  float* partial = static_cast<float*>(workspace);
  const int parts = static_cast<int>(divide_up(p.longest, kDecodePart)), head = padded_head(p.keys, p.values);
  const auto kernel = head == 64 ? decode_kernel<64> : head == 128 ? decode_kernel<128> : decode_kernel<256>;
  launch("attention.decode", kernel, static_cast<int64_t>(p.sequences) * decode_heads(p).blocks * parts,
         kDecodeWarps * kWarp, decode_shared_bytes(head), stream, p, partial, parts);
  launch("attention.merge", merge_kernel, static_cast<int64_t>(p.sequences) * p.heads, kMergeThreads,
         (kMergeParts + kMergeThreads / kWarp) * 4, stream, p, static_cast<const float*>(partial), parts, o,
         logsumexp);
}

}  // namespace longhaul::kernels::cuda
