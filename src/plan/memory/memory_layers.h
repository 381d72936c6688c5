// Activations of a decoder, layer by layer: what the forward pass keeps for the backward pass, and what the passes hold beside it. What a mixer
// keeps its entry says (recipe/mixers/), from src/model and the autograd functions of src/kernels (save_for_backward); a change there is a
// change in the entry, and tests/run/memory_test.cpp finds it. Bytes.
//
// A block's input gradient enters its backward pass while everything it kept is still there, so each part of a layer has its peak inside its
// own backward pass: kept so far + the gradients alive + the part's own.
#pragma once

#include "plan/memory/memory.h"
#include "recipe/mixers.h"

namespace longhaul::plan {

using recipe::BlockMemory;
BlockMemory mixer_memory(const MemoryRequest& request, int64_t layer);
BlockMemory channel_memory(const MemoryRequest& request, recipe::ChannelMixer mixer);

double hidden_bytes(const MemoryRequest& request);  // of [tokens, hidden]
// What full recomputation keeps of a layer beside its input: the result of softmax attention, and its log-sum-exp.
struct AttentionResultBytes {
  double output = 0, log_sums = 0;
  double total() const { return output + log_sums; }
};
AttentionResultBytes attention_result_bytes(const MemoryRequest& request, int64_t layer);
double norm_bytes(const MemoryRequest& request);       // kept by the norm before a block: joined input, output, statistics
double rotary_bytes(const MemoryRequest& request);     // of the table of angles, kept for the micro-batch
double embedding_bytes(const MemoryRequest& request);  // kept before the first layer: what a Toeplitz encoding reads

int64_t element_bytes(recipe::Dtype dtype);  // of weights and activations
int64_t wide_bytes(recipe::Dtype dtype);     // of sums, gradients and masters

}  // namespace longhaul::plan
