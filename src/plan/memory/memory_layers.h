// Activations of a decoder, layer by layer: what the forward pass keeps for the backward pass, and what the
// passes need in addition. The entry of a mixer gives what it keeps (recipe/mixers/), based on src/model and
// the autograd functions of src/kernels (save_for_backward). A change there needs a change of the entry, and
// tests/run/memory/memory_test.cpp detects a mismatch. In bytes.
//
// The gradient of a block's output enters its backward pass while everything that the block kept still
// exists. So each part of a layer has its peak within its own backward pass: all that is kept so far + the
// existing gradients + the part's own.
#pragma once

#include "plan/memory/memory.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

using recipe::BlockMemory;
BlockMemory mixer_memory(const MemoryRequest& request, int64_t layer);
// layer: where tensors are frozen, what the block keeps differs between layers; −1: nothing is frozen.
BlockMemory channel_memory(const MemoryRequest& request, recipe::ChannelMixer mixer, int64_t layer = -1);

double hidden_bytes(const MemoryRequest& request);  // bytes of [tokens, hidden]
// MixerResultBytes: what a layer that runs again keeps in addition to its input: the result of softmax
// attention and its log-sum-exp; with recomputation by tokens also the result of a recurrence and the states
// that its backward pass reads.
struct MixerResultBytes {
  double output = 0, log_sums = 0, states = 0;
  double total() const { return output + log_sums + states; }
};
MixerResultBytes mixer_result_bytes(const MemoryRequest& request, int64_t layer);
// What train.offload = host moves of a layer beside its input and its mixer's result: the results of
// products, all rows of them.
double product_row_bytes(const MemoryRequest& request, int64_t layer);
// What is moved of a layer: a share of these rows, its input (`hidden` bytes), and its mixer's result.
double moved_to_host_bytes(const MemoryRequest& request, int64_t layer, double hidden, double share);
// How much of what is moved lies in the host's memory, and not in the file behind it.
double on_host_of(const MemoryRequest& request, double moved_bytes);
// Kept by the norm before a block: joined input, output, statistics.
double norm_bytes(const MemoryRequest& request);
double rotary_bytes(const MemoryRequest& request);  // table of rotation angles, kept for the micro-batch
// Kept before the first layer: the input of a Toeplitz encoding.
double embedding_bytes(const MemoryRequest& request);

int64_t element_bytes(recipe::Dtype dtype);  // of weights and activations
int64_t wide_bytes(recipe::Dtype dtype);     // of sums, gradients and masters

}  // namespace longhaul::plan
