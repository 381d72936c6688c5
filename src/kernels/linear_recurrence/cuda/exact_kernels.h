// The exact form of a run (run.h), token by token in fp32 for every kind of decay; and sums over the heads of
// a group.
#pragma once

#include "kernels/linear_recurrence/cuda/run.h"

namespace longhaul::kernels::cuda {

// 32 columns of one head's state, token by token; each thread holds 32 rows of one column.
LONGHAUL_KERNEL(256) exact_kernel(Run run) {
  LONGHAUL_SHARED(shared);
  const ExactShared layout = exact_shared(run.k.width);
  float* q = reinterpret_cast<float*>(shared);
  float* k = reinterpret_cast<float*>(shared + layout.k);
  float* decay = reinterpret_cast<float*>(shared + layout.decay);
  float* v = reinterpret_cast<float*>(shared + layout.v);
  float* partial = reinterpret_cast<float*>(shared + layout.partial);
  const int slices = static_cast<int>(divide_up(run.v.width, 32)), warps = exact_warps(run.k.width),
            rows = warps * 32;
  const int slice = static_cast<int>(blockIdx.x) % slices,
            head = static_cast<int>(blockIdx.x) / slices % run.heads;
  const int document = static_cast<int>(blockIdx.x) / slices / run.heads;
  const int lane = lane_index(), row0 = warp_index() * 32, col = slice * 32 + lane;
  const int64_t begin = run.offsets[document], length = run.offsets[document + 1] - begin;
  const int64_t state_base = (static_cast<int64_t>(document) * run.heads + head) * run.k.width * run.v.width;
  const auto token = [&](int64_t i) { return run.against ? begin + length - 1 - i : begin + i; };
  float state[32];
  LONGHAUL_UNROLL
  for (int r = 0; r < 32; ++r) {
    const bool inside = run.initial.data != nullptr && row0 + r < run.k.width && col < run.v.width;
    state[r] =
        inside ? run.initial
                     .data[state_base + (row0 + r) * run.initial.row_stride + col * run.initial.col_stride]
               : 0.f;
  }
  for (int64_t done = 0; done < length; done += kExactBatch) {
    const int batch = static_cast<int>(length - done < kExactBatch ? length - done : kExactBatch);
    for (int i = static_cast<int>(threadIdx.x); i < batch * rows; i += static_cast<int>(blockDim.x)) {
      const int64_t t = token(done + i / rows);
      const int r = i % rows;
      const bool inside = r < run.k.width;
      q[i] = inside ? to_float(run.q.at(t, head)[r]) : 0.f;
      const int64_t of_channel = (t * run.heads + head) * run.k.width + r;
      const bool tied = run.k.data == nullptr;
      float log = 0, key = 0;
      if (inside && !tied) key = to_float(run.k.at(t, head)[r]);
      if (run.kind == DecayKind::kHead || run.kind == DecayKind::kHeadToken) log = log2_decay(run, t, head);
      if (run.kind == DecayKind::kChannelToken && inside && gated(run.gate)) {
        const Logit x = logit_at(run.gate, run.log_decay, of_channel);
        const float bound = bound_at(run.gate, head * run.k.width + r);
        decay[i] = gate_decay(run.gate, x, bound);
        if (tied) key = gate_key(run.gate, x, bound);
      } else {
        if (run.kind == DecayKind::kChannelToken && inside) log = in_log2(run.log_decay[of_channel]);
        if (inside && tied) key = tied_key(run.log_decay[of_channel]);
        decay[i] = power_of_two(log);
      }
      k[i] = run.write * key;
    }
    for (int i = static_cast<int>(threadIdx.x); i < batch * 32; i += static_cast<int>(blockDim.x)) {
      const int c = slice * 32 + i % 32;
      v[i] = c < run.v.width ? to_float(run.v.at(token(done + i / 32), head)[c]) : 0.f;
    }
    __syncthreads();
    for (int i = 0; i < batch; ++i) {
      const float value = v[i * 32 + lane];
      float sum = 0;
      LONGHAUL_UNROLL
      for (int r = 0; r < 32; ++r) {
        state[r] = decay[i * rows + row0 + r] * state[r] + k[i * rows + row0 + r] * value;
        sum += q[i * rows + row0 + r] * state[r];
      }
      partial[(i * warps + warp_index()) * 32 + lane] = sum;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < batch * 32; i += static_cast<int>(blockDim.x)) {
      const int c = slice * 32 + i % 32;
      if (c >= run.v.width) continue;
      float sum = 0;
      for (int w = 0; w < warps; ++w) sum += partial[(i / 32 * warps + w) * 32 + i % 32];
      run.out[(token(done + i / 32) * run.heads + head) * run.v.width + c] =
          from_float<Bf16>(run.scale * sum);
    }
  }
  if (run.final.data == nullptr || col >= run.v.width) return;
  LONGHAUL_UNROLL
  for (int r = 0; r < 32; ++r) {
    if (row0 + r < run.k.width)
      run.final.data[state_base + (row0 + r) * run.final.row_stride + col * run.final.col_stride] = state[r];
  }
}

}  // namespace longhaul::kernels::cuda
