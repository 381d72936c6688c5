// What operators in bf16 need beside their tensors on a GPU, where libraries compute them: bytes.
#pragma once

#include "plan/memory/memory.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

// Whether the operators' forms for a GPU compute: in bf16.
bool by_gpu_kernels(const MemoryRequest& request);
// Logits in fp32 and their gradients in bf16 of as many tokens as kernels/linear_cross_entropy/op.h takes at
// once.
double gpu_loss_workspace(const MemoryRequest& request);
// Of the backward pass (kernels/attention/flash.h): sums of dq in fp32, one for each group of blocks; a sum
// of dO · O; gradients of keys and values by query heads, where heads share keys.
double gpu_attention_workspace(const MemoryRequest& request, const recipe::AttentionSizes& sizes);

}  // namespace longhaul::plan
