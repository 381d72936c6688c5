// linear_recurrence on a GPU: raw pointers, sizes and a stream (contract: op.h; algebra:
// docs/sources/linear-attention.md §2).
//
// Chunked form (decay none, per head, per token and head): chunks of 64 tokens, mma.m16n8k16 with bf16
// operands, the state in fp32 registers. One kernel serves the forward pass and the three gradients, which
// are recurrences themselves:
//   dq = run(do, v, k) along the tokens with Sᵀ;
//   dk = run(v, do, q) and dv = run(k, q, do) against them with Dᵀ and D,
//   the last two in one sweep where keys and values ≤ 128.
// Two-pass form (every kind of decay, and its gradient; two_pass.h): states between chunks in memory, then
// all chunks at once. Exact form (every kind, one step of decoding): token by token in fp32.
// All are deterministic. Tables and workspace belong to the caller and lie on the device.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/linear_recurrence/cuda/gate_kernels.h"
#include "kernels/linear_recurrence/cuda/tiles.h"

namespace longhaul::kernels::cuda {

struct Recurrence {
  int64_t tokens = 0;
  // heads a multiple of key_heads; keys, values 1 … 256
  int documents = 0, heads = 0, key_heads = 0, keys = 0, values = 0;
  DecayKind kind = DecayKind::kNone;
  float scale = 1;
  bool reverse = false;              // documents run from their last token to their first
  const Bf16* q = nullptr;           // [T, H, keys]
  const Bf16* k = nullptr;           // [T, Hk, keys]; or null: tied, k = 1 − λ, for a decay per channel
  const Bf16* v = nullptr;           // [T, Hk, values]
  const float* log_decay = nullptr;  // [H], [T, H] or [T, H, keys], ≤ 0; or a gate's fp32 logits
  const float* initial = nullptr;    // [N, H, keys, values] or null: zeros
  const int64_t* offsets = nullptr;  // [N + 1]
  RecurrenceGate gate;
};

struct RecurrenceTables {  // a RecurrencePlan on the device
  const Segment *along = nullptr, *against = nullptr;
  const int32_t* document_segments = nullptr;
  int segments = 0;
};

struct TwoPassTables {  // the segments in the order of the problem, and a ChunkTable, on the device
  const Segment* segments = nullptr;
  const Chunk* chunks = nullptr;
  const int32_t *segment_chunks = nullptr, *document_segments = nullptr;
  int segment_count = 0, chunk_count = 0;
};

struct RecurrenceGradientPointers {
  const Bf16* d_o = nullptr;       // [T, H, values]
  const float* d_final = nullptr;  // [N, H, keys, values] or null: zeros
  // as q, k, v; of tied keys the gradient goes to the decay
  Bf16 *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
  float* d_initial = nullptr;  // or null: not wanted
  // two-pass form only; or null: not wanted. Of a gate's fp32 logits, or
  float* d_log_decay = nullptr;
  Bf16* d_logits = nullptr;        // of bf16 ones
  float* d_lower_bound = nullptr;  // of a gate's γ, beside one of these
};

int64_t chunked_workspace_bytes(const Recurrence& problem, int segments, bool backward);
void chunked_forward(const Recurrence& problem, const RecurrenceTables& tables, Bf16* o, float* final_state,
                     void* workspace, Stream stream);
void chunked_backward(const Recurrence& problem, const RecurrenceTables& tables,
                      const RecurrenceGradientPointers& gradients, void* workspace, Stream stream);

int64_t two_pass_workspace_bytes(const Recurrence& problem, const TwoPassTables& tables, bool backward);
void two_pass_forward(const Recurrence& problem, const TwoPassTables& tables, Bf16* o, float* final_state,
                      void* workspace, Stream stream);
void two_pass_backward(const Recurrence& problem, const TwoPassTables& tables,
                       const RecurrenceGradientPointers& gradients, void* workspace, Stream stream);

// final_state may be `initial`: decoding
void exact_forward(const Recurrence& problem, Bf16* o, float* final_state, Stream stream);

}  // namespace longhaul::kernels::cuda
