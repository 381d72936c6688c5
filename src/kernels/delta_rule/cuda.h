// delta_rule on a GPU, without a decay or with one per token and head: raw pointers, sizes and a stream
// (contract: op.h). In chunks of 64 tokens; products by mma.m16n8k16 with bf16 operands and fp32 sums, the
// state in fp32 registers. A chunk's systems are solved in fp32. The backward pass makes everything again
// from the inputs. Deterministic. Tables and workspace belong to the caller and lie on the device.
//
// Heads have 1 … 256 channels of keys and any number of values.
#pragma once

#include "kernels/cuda/numbers.h"
#include "kernels/linear_recurrence/cuda/tiles.h"

namespace longhaul::kernels::cuda {

struct DeltaRule {
  int64_t tokens = 0;
  int documents = 0, heads = 0, key_heads = 0, keys = 0, values = 0;  // heads a multiple of key_heads
  float scale = 1;
  const Bf16 *q = nullptr, *k = nullptr;  // [T, Hk, keys]
  const Bf16* v = nullptr;                // [T, H, values]
  const float* beta = nullptr;            // [T, H]
  const float* log_decay = nullptr;       // [T, H] or null: none
  const float* initial = nullptr;         // [N, H, keys, values] or null: zeros
};

struct DeltaTables {  // on the device
  const Chunk* chunks = nullptr;
  const int32_t* document_chunks = nullptr;  // [N + 1]: where those of each document begin
  int chunk_count = 0;
};

struct DeltaGradientPointers {
  const Bf16* d_o = nullptr;       // [T, H, values]
  const float* d_final = nullptr;  // [N, H, keys, values] or null: zeros
  Bf16 *d_q = nullptr, *d_k = nullptr, *d_v = nullptr;
  float *d_beta = nullptr, *d_log_decay = nullptr;  // d_log_decay null where there is no decay
  float* d_initial = nullptr;
};

int64_t delta_workspace_bytes(const DeltaRule& problem, const DeltaTables& tables, bool backward);
void delta_forward(const DeltaRule& problem, const DeltaTables& tables, Bf16* o, float* final_state,
                   void* workspace, Stream stream);
void delta_backward(const DeltaRule& problem, const DeltaTables& tables,
                    const DeltaGradientPointers& gradients, void* workspace, Stream stream);

}  // namespace longhaul::kernels::cuda
