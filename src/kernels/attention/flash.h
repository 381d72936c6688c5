// attention by LibTorch's flash attention (FlashAttention-2, arXiv 2307.08691), on a GPU and in bf16: the
// same arguments and results as the other implementations, without a copy of q, k or v whose rows it can
// read.
//
// It takes heads of 8 to 256 channels, in eights, with as many of values as of keys; causal attention,
// windows on either side, documents in any position, but no prefix, and one distance between queries and
// keys for all documents that it limits. Gradients are the same from run to run: LibTorch's deterministic
// form, which needs a sum of dq for each group of blocks, is chosen, and problems for which these would take
// more than kMostSumBytes are refused in the backward pass.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/cuda/library_check.h"

namespace longhaul::kernels {

// The first question on a device compares LibTorch's results there with the plain form's.
Refusal refuse_attention_flash(const AttentionProblem& problem);
const LibraryCheck& flash_attention_check();
AttentionResult attention_forward_flash(const AttentionProblem& problem);

// The backward pass makes δ itself, from o of all keys, so it gives no gradient of the log-sum-exp.
Refusal refuse_attention_backward_flash(const AttentionProblem& problem, const AttentionOutside& outside);
AttentionGradients attention_backward_flash(const AttentionProblem& problem, const AttentionOutside& outside);

}  // namespace longhaul::kernels
