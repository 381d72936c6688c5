// A run: the recurrence that the forward pass and each gradient of linear_recurrence have in common, with
// its operands in their roles.
//
//   o = scale · (e^b q S + write · A v), S ← e^{total} S + write · (e^{total − b} k)ᵀ v
//   (docs/sources/linear-attention.md §2; b in units of log 2)
//
// b are sums of log-decays within a chunk. A `late` run decays after a token has been read instead of
// before it is written: b is then the exclusive sum.
#pragma once

#include "kernels/cuda/mma.h"
#include "kernels/linear_recurrence/cuda/gate_kernels.h"
#include "kernels/linear_recurrence/cuda/tiles.h"

namespace longhaul::kernels::cuda {

// 2^-192 is 0 in fp32: a steeper decay changes nothing, and would cost the sums digits
constexpr float kSmallestLog = -192.f;

struct Rows {  // [tokens, heads, width]; head h of the run reads head h / group
  const Bf16* data;
  int group, width;
  int64_t stride;  // between tokens
  bool aligned;
  LONGHAUL_DEVICE const Bf16* at(int64_t token, int head) const {
    return data + token * stride + static_cast<int64_t>(head / group) * width;
  }
};

// A state [N, H, rows, cols] in memory that may hold its transpose.
struct StateView {
  float* data;
  int64_t row_stride, col_stride;
};

struct Run {
  Rows q, k, v;     // k.width × v.width is the state
  Bf16* out;        // [T, H, v.width]
  float* out_fp32;  // instead of `out`, where it is not null
  DecayKind kind;
  const float* log_decay;
  RecurrenceGate gate;
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

LONGHAUL_DEVICE float tied_key(float log_decay) { return -expm1f(log_decay); }

LONGHAUL_DEVICE float in_log2(float log_decay) {  // NaN says that it is none
  return log_decay <= kLargestLogDecay ? fmaxf(log_decay * kLog2E, kSmallestLog) : NAN;
}

LONGHAUL_DEVICE float log2_decay(const Run& run, int64_t token, int head) {
  if (run.kind == DecayKind::kNone) return 0.f;
  if (gated(run.gate))
    return in_log2(gate_log_decay(run.gate, logit_at(run.gate, run.log_decay, token * run.heads + head)));
  return in_log2(run.kind == DecayKind::kHead ? run.log_decay[head]
                                              : run.log_decay[token * run.heads + head]);
}

// Columns of a fragment, which are 16 tokens, by the factors of these.
LONGHAUL_DEVICE void scale_tokens(FragmentA& a, const float* factors) {
  const float* factor = factors + 2 * (lane_index() % 4);
  LONGHAUL_UNROLL
  for (int reg = 0; reg < 4; ++reg) {
    const float* of = reg < 2 ? factor : factor + 8;
    a.reg[reg] = pack(low_half(a.reg[reg]) * of[0], high_half(a.reg[reg]) * of[1]);
  }
}

}  // namespace longhaul::kernels::cuda
