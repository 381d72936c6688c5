// The exact form of a run (run.h), token by token in fp32 for every kind of decay, and what its gradients need: sums over the heads of a
// group, gradients of the decay.
#pragma once

#include "kernels/linear_recurrence/run.h"

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

}  // namespace longhaul::kernels::cuda
