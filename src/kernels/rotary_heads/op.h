// Splits the fused [query | key | value] of an attention layer into heads, with rotary positions (arXiv
// 2104.09864) on queries and keys: NeoX pairs (j, j + dim/2) of the first `dim` channels of every head,
// angle = position · base^(−2j/dim); the other channels are unchanged.
//
// The forward pass rotates in place and returns views; the backward pass gathers the three gradients into
// one tensor and rotates them back: one copy backward, none forward. Rotations in fp32 (fp64 for fp64
// inputs), rounded once. Results do not depend on the number of threads.
#pragma once

#include <span>

#include "kernels/activation/op.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

struct RotaryTable {
  Tensor cos_tr, sin_tr;  // [tokens, dim/2]; angles formed in fp64
};
RotaryTable rotary_table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type);
// With frequencies other than base^(−2j/dim): one for each pair.
RotaryTable rotary_table(std::span<const int64_t> positions, std::span<const double> frequencies,
                         ScalarType type);

// x_tc [tokens, (heads + 2 kv_heads) · head_dim] is consumed: its storage holds the heads afterwards, and
// autograd raises an error if its old values are needed (aten leaves it unchanged). Without a table
// (undefined tensors) nothing is rotated.
Heads split_heads(const Tensor& x_tc, int64_t heads, int64_t kv_heads, int64_t head_dim,
                  const RotaryTable& table);

// x_thd [tokens, heads, head_dim], rotated with ATen operators under autograd.
Tensor rotate_reference(const Tensor& x_thd, const RotaryTable& table);

}  // namespace longhaul::kernels
