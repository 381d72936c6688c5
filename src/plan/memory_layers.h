// Activations of a decoder, layer by layer: what the forward pass keeps for the backward pass, and what the passes hold beside it. Derived
// from src/model and the autograd functions of src/kernels (save_for_backward); a change there is a change here, and
// tests/train/memory_test.cpp finds it. Bytes.
//
// A block's input gradient enters its backward pass while everything it kept is still there, so each part of a layer has its peak inside its
// own backward pass: kept so far + the gradients alive + the part's own.
#pragma once

#include "plan/memory.h"

namespace longhaul::plan {

// A mixer, or a channel mixer with its experts; the norm before it is apart.
struct BlockMemory {
  double kept = 0;        // from the forward pass to this block's backward pass
  double backward = 0;    // most beside what is kept, in its backward pass: gradients, those that enter it among them
  double workspace = 0;   // of its operators' backward pass, freed with the call
  double evaluation = 0;  // most that its forward pass holds when nothing is kept, its input and the residual counted
};

BlockMemory mixer_memory(const MemoryRequest& request, recipe::Mixer mixer);
BlockMemory channel_memory(const MemoryRequest& request);

double hidden_bytes(const MemoryRequest& request);  // of [tokens, hidden]
double norm_bytes(const MemoryRequest& request);    // kept by the norm before a block: joined input, output, statistics
double rotary_bytes(const MemoryRequest& request);  // of the table of angles, kept for the micro-batch

int64_t element_bytes(recipe::Dtype dtype);  // of weights and activations
int64_t wide_bytes(recipe::Dtype dtype);     // of sums, gradients and masters

}  // namespace longhaul::plan
