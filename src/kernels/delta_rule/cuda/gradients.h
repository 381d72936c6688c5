// The gradients of q, k, β and the decay, of all chunks at once, where R, dV = Y, S and G are known
// (delta.h).
// With e_ij = do_i · r_j for j ≤ i, and n_ij = y_i · r_j for j < i:
//
//   dq = q' + E K                    q'_i = scale · Λ_i0 S do_i          E_ij = scale · β_j Λ_ij e_ij
//   dk = k' + k° + Eᵀ Q − N K − Nᵀ K     k'_i = −Λ_i0 S y_i, k°_j = β_j Λ_Bj G r_j,  N_ij = β_j Λ_ij n_ij
//   dβ_j = y_j · r_j / β_j = Σ_i z_ij + k_j · k°_j / β_j
//                                        z_ij = Λ_ij (scale · e_ij q_i · k_j − n_ij k_i · k_j)
//   of log Λ_i0:  q_i · q'_i + k_i · k'_i + Σ_j β_j z_ij − β_i Σ_j z_ji − k_i · k°_i, and of the last one
//                 besides Σ_j k_j · k°_j + Λ_B0 ⟨S, G⟩
//
// A pair's z stands twice in the gradient of the decay, where it decays and where it begins, and its own
// token's in neither: sums of small numbers stay small. dβ is the quotient, for the sum cancels where keys
// are alike; for a β of 0 it is the sum.
#pragma once

#include "kernels/delta_rule/cuda/delta.h"

namespace longhaul::kernels::cuda {

constexpr float kSmallestBeta = 1e-20f;  // y = β z and its quotient keep their digits down to here

struct DeltaGradientPass {
  Bf16 *d_q, *d_k;
  float *wide_q, *wide_k;  // [T, H, keys], instead of them where heads share keys
  float *d_beta, *d_log_decay;
};

// Sums over pairs and channels of a chunk's tokens, by the warps that made them.
struct DeltaSums {
  float rows[2][kChunk], columns[4][kChunk];  // Σ_j β_j z_ij, Σ_i z_ij without i = j
  float own[kChunk], of_y[kChunk];            // z_ii, y_i · r_i
  float reads[2][kChunk], ends[2][kChunk];    // q_i · q'_i + k_i · k'_i; k_i · k°_i / β_i
  float warps[8];
};

struct DeltaGradientShared {
  int decays, sums, bytes;  // nine tiles come first
};
LONGHAUL_HD constexpr DeltaGradientShared delta_gradient_shared() {
  const int decays = 9 * kTileBytes, sums = decays + static_cast<int>(sizeof(DeltaDecays));
  return {decays, sums, sums + static_cast<int>(sizeof(DeltaSums))};
}

// One block's work: a chunk and a head. Warp w has rows 16 (w % 4) … and columns 32 (w / 4) … of each 64 ×
// 64.
struct DeltaGradient {
  const Delta& in;
  Chunk chunk;
  int at, head, row_tile, row0, col0;
  Rows residuals, d_v;
  unsigned char* memory;

  LONGHAUL_DEVICE Tile<kSlice> tile(int n) const {
    return {reinterpret_cast<Bf16*>(memory) + n * kTileValues};
  }
  LONGHAUL_DEVICE Tile<kSlice> pairs_o() const { return tile(0); }  // E
  LONGHAUL_DEVICE Tile<kSlice> pairs_y() const { return tile(1); }  // −N
  LONGHAUL_DEVICE Tile<kSlice> q() const { return tile(2); }
  LONGHAUL_DEVICE Tile<kSlice> k() const { return tile(3); }
  LONGHAUL_DEVICE Tile<kSlice> d_o() const { return tile(4); }
  LONGHAUL_DEVICE Tile<kSlice> y() const { return tile(5); }
  LONGHAUL_DEVICE Tile<kSlice> r() const { return tile(6); }
  LONGHAUL_DEVICE Tile<kSlice> state() const { return tile(7); }
  LONGHAUL_DEVICE Tile<kSlice> d_state() const { return tile(8); }
  LONGHAUL_DEVICE DeltaDecays& decays() const {
    return *reinterpret_cast<DeltaDecays*>(memory + delta_gradient_shared().decays);
  }
  LONGHAUL_DEVICE DeltaSums& sums() const {
    return *reinterpret_cast<DeltaSums*>(memory + delta_gradient_shared().sums);
  }

  LONGHAUL_DEVICE void load_values(int value0) const {
    load_rows(d_o(), in.d_o, chunk, head, value0);
    load_rows(y(), d_v, chunk, head, value0);
    load_rows(r(), residuals, chunk, head, value0);
  }
  LONGHAUL_DEVICE void load_keys(int key0) const {
    load_rows(q(), in.q, chunk, head, key0);
    load_rows(k(), in.k, chunk, head, key0);
  }
  LONGHAUL_DEVICE static void arrive() {
    end_copy_group();
    wait_for_copies<0>();
    __syncthreads();
  }
  // c += left rightᵀ, of rows and columns that are this warp's; over 64 channels. Below the diagonal only.
  LONGHAUL_DEVICE void add_pairs(float (&c)[4][4], Tile<kSlice> left, Tile<kSlice> right) const {
    if (col0 > row0 + 15) return;
    LONGHAUL_ROLL
    for (int depth = 0; depth < kSlice; depth += 16)
      add_product_transposed(c, load_a(left, row0, depth), right, col0, depth);
  }
  // c += left rightᵀ over 64 channels
  LONGHAUL_DEVICE void add_transposed(float (&c)[4][4], Tile<kSlice> left, Tile<kSlice> right) const {
    LONGHAUL_ROLL
    for (int depth = 0; depth < kSlice; depth += 16)
      add_product_transposed(c, load_a(left, row0, depth), right, col0, depth);
  }
  // c += lower · right, or lowerᵀ · right
  LONGHAUL_DEVICE void add_lower(float (&c)[4][4], Tile<kSlice> lower, Tile<kSlice> right) const {
    for (int other = 0; other <= row_tile; ++other)
      add_product(c, load_a(lower, row0, other * 16), right, other * 16, col0);
  }
  LONGHAUL_DEVICE void add_upper(float (&c)[4][4], Tile<kSlice> lower, Tile<kSlice> right) const {
    for (int other = row_tile; other < kChunk / 16; ++other)
      add_product(c, load_a_transposed(lower, other * 16, row0), right, other * 16, col0);
  }

  // E, N and the sums over pairs.
  LONGHAUL_DEVICE void make_pairs() const {
    float e[4][4] = {}, n[4][4] = {}, qk[4][4] = {}, kk[4][4] = {};
    for (int value0 = 0; value0 < in.v.width; value0 += kSlice) {
      load_values(value0);
      arrive();
      add_pairs(e, d_o(), r());
      add_pairs(n, y(), r());
      __syncthreads();
    }
    for (int key0 = 0; key0 < in.k.width; key0 += kSlice) {
      load_keys(key0);
      arrive();
      add_pairs(qk, q(), k());
      add_pairs(kk, k(), k());
      __syncthreads();
    }
    const DeltaDecays& of = decays();
    float rows[2] = {}, columns[4][2] = {};
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Place place = c_place(lane_index(), i);
        const int row = row0 + place.row, col = col0 + column * 8 + place.col;
        const float weight = decay_between(of, row, col), beta = of.beta[col];
        const float d_p = in.scale * weight * e[column][i], d_a = row > col ? weight * n[column][i] : 0.f;
        const float z = d_p * qk[column][i] - d_a * kk[column][i];
        if (row == col) {
          sums().own[row] = z;
          sums().of_y[row] = n[column][i];
        }
        rows[i >> 1] += row == col ? 0.f : beta * z;
        columns[column][i & 1] += row == col ? 0.f : z;
        e[column][i] = beta * d_p;
        n[column][i] = -beta * d_a;
      }
    }
    put_rows(pairs_o(), row0, col0, e);
    put_rows(pairs_y(), row0, col0, n);
    add_row_sums(sums().rows[col0 / 32], rows, true);
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 2; ++i) {
        float x = columns[column][i];
        for (int mask = 4; mask < kWarp; mask *= 2) x += shuffle_xor(x, mask);
        if (lane_index() < 4) sums().columns[row_tile][col0 + column * 8 + 2 * lane_index() + i] = x;
      }
    }
  }
  // Sums of the lane's rows over the lanes that have a part of them, added to what is there, or put.
  LONGHAUL_DEVICE void add_row_sums(float* to, const float (&x)[2], bool first) const {
    LONGHAUL_UNROLL
    for (int half = 0; half < 2; ++half) {
      float sum = x[half] + shuffle_xor(x[half], 1);
      sum += shuffle_xor(sum, 2);
      float& of_row = to[row0 + c_place(lane_index(), 2 * half).row];
      if (lane_index() % 4 == 0) of_row = first ? sum : of_row + sum;
    }
  }

  // c ⊙ factors of the rows; returns in `dots` what x · c gains.
  LONGHAUL_DEVICE void weigh(float (&c)[4][4], const float* factors, Tile<kSlice> x, float (&dots)[2]) const {
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Place place = c_place(lane_index(), i);
        const int row = row0 + place.row;
        c[column][i] *= factors[row];
        dots[i >> 1] += to_float(*x.at(row, col0 + column * 8 + place.col)) * c[column][i];
      }
    }
  }
  LONGHAUL_DEVICE void leave(float (&c)[4][4], Tile<kSlice> by, int key0, Bf16* out, float* wide) const {
    const int first = key0 + col0, width = in.k.width;
    const int64_t of_chunk = (chunk.first * in.heads + head) * width + first;
    const int64_t stride = static_cast<int64_t>(in.heads) * width;
    if (wide == nullptr) {
      store_rows(by, row0, col0, c, chunk.rows, width - first,
                 [&](int row) { return out + of_chunk + row * stride; });
      return;
    }
    each_place(c, row0, 0, [&](float& x, int row, int col) {
      if (row < chunk.rows && first + col < width) wide[of_chunk + row * stride + col] = x;
    });
  }

  // dq and dk of 64 keys; adds to the sums over channels and to ⟨S, G⟩.
  LONGHAUL_DEVICE void make_keys(const DeltaGradientPass& pass, int key0) const {
    float through = 0;
    float of_q[4][4] = {}, of_k[4][4] = {}, of_end[4][4] = {};
    load_keys(key0);
    for (int value0 = 0; value0 < in.v.width; value0 += kSlice) {
      load_values(value0);
      load_state(state(), in, in.states, at, head, key0, value0);
      load_state(d_state(), in, in.d_states, at, head, key0, value0);
      arrive();
      add_transposed(of_q, d_o(), state());
      add_transposed(of_k, y(), state());
      add_transposed(of_end, r(), d_state());
      for (int n = 2 * static_cast<int>(threadIdx.x); n < kTileValues; n += 2 * kTwoPassThreads) {
        const uint32_t s = *reinterpret_cast<const uint32_t*>(state().data + n),
                       g = *reinterpret_cast<const uint32_t*>(d_state().data + n);
        through += low_half(s) * low_half(g) + high_half(s) * high_half(g);
      }
      __syncthreads();
    }
    const DeltaDecays& of = decays();
    float reads[2] = {}, ends[2] = {};
    through = warp_sum(through);
    float& of_warp = sums().warps[warp_index()];
    if (lane_index() == 0) of_warp = key0 == 0 ? through : of_warp + through;
    weigh(of_q, of.read, q(), reads);
    add_lower(of_q, pairs_o(), k());
    leave(of_q, d_o(), key0, pass.d_q, pass.wide_q);
    weigh(of_k, of.forget, k(), reads);
    add_row_sums(sums().reads[col0 / 32], reads, key0 == 0);
    weigh(of_end, of.end, k(), ends);
    add_row_sums(sums().ends[col0 / 32], ends, key0 == 0);
    LONGHAUL_UNROLL
    for (int column = 0; column < 4; ++column) {
      LONGHAUL_UNROLL
      for (int i = 0; i < 4; ++i)
        of_k[column][i] += of.beta[row0 + c_place(lane_index(), i).row] * of_end[column][i];
    }
    add_upper(of_k, pairs_o(), q());
    add_lower(of_k, pairs_y(), k());
    add_upper(of_k, pairs_y(), k());
    leave(of_k, y(), key0, pass.d_k, pass.wide_k);
    __syncthreads();
  }

  // By one warp, of all sums: dβ and the gradient of the decay, added up from the last token to the first.
  LONGHAUL_DEVICE void finish(const DeltaGradientPass& pass) const {
    const DeltaSums& of = sums();
    const int lane = lane_index(), row = 2 * lane;
    float d_sum[2], passing = 0;
    LONGHAUL_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int t = row + i;
      const float ends = of.ends[0][t] + of.ends[1][t], beta = decays().beta[t];
      const float begins = of.columns[0][t] + of.columns[1][t] + of.columns[2][t] + of.columns[3][t];
      d_sum[i] =
          of.reads[0][t] + of.reads[1][t] + (of.rows[0][t] + of.rows[1][t] - beta * begins) - beta * ends;
      passing += beta * ends;
      const float d_beta = beta > kSmallestBeta ? of.of_y[t] / beta : begins + of.own[t] + ends;
      if (t < chunk.rows) pass.d_beta[(chunk.first + t) * in.heads + head] = d_beta;
    }
    if (pass.d_log_decay == nullptr) return;
    float through = 0;
    for (const float x : of.warps) through += x;
    const float last = warp_sum(passing) + decays().whole * through;
    float after = d_sum[0] + d_sum[1];
    for (int step = 1; step < kWarp; step *= 2) {
      const float next = shuffle(after, (lane + step) % kWarp);
      if (lane + step < kWarp) after += next;
    }
    const float of_both[2] = {after, after - d_sum[0]};
    LONGHAUL_UNROLL
    for (int i = 0; i < 2; ++i) {
      if (row + i < chunk.rows)
        pass.d_log_decay[(chunk.first + row + i) * in.heads + head] = of_both[i] + last;
    }
  }
};

LONGHAUL_KERNEL_OF_TWO(kTwoPassThreads)
delta_gradients_kernel(Delta in, const Bf16* d_v, DeltaGradientPass pass) {
  LONGHAUL_SHARED(shared);
  const ChunkedBlock place = chunked_block(blockIdx.x, in.heads, 1);
  const int row_tile = warp_index() % 4;
  const int64_t stride = static_cast<int64_t>(in.heads) * in.v.width;
  const bool aligned = in.v.width % kUnit == 0;
  const DeltaGradient work{in,
                           in.chunks[place.part],
                           place.part,
                           place.head,
                           row_tile,
                           row_tile * 16,
                           warp_index() / 4 * 32,
                           {in.residuals, 1, in.v.width, stride, aligned},
                           {d_v, 1, in.v.width, stride, aligned},
                           shared};
  if (warp_index() == 0) read_decays(in, work.chunk, work.head, work.decays());
  work.make_pairs();
  for (int key0 = 0; key0 < in.k.width; key0 += kSlice) work.make_keys(pass, key0);
  if (warp_index() == 0) work.finish(pass);
}

}  // namespace longhaul::kernels::cuda
