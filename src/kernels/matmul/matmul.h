// The products of linear layers on tensors, with our own packed kernels (product.h): kernels/linear calls
// them when refuse_… is empty. rows_per_group: one number for an ordinary layer, otherwise one for each
// expert; rows are sorted by group.
#pragma once

#include <span>

#include "kernels/dispatch.h"
#include "kernels/matmul/epilogue.h"
#include "kernels/matmul/int8_weight.h"
#include "kernels/matmul/packed_weight.h"

namespace longhaul::kernels {

// Why the packed kernels do not take this call; empty: they do. x may have any row stride, its columns lie
// side by side.
Refusal refuse_packed(const Tensor& x, const Tensor& weight, const PackedWeight* kept);
Refusal refuse_packed_weight_gradient(const Tensor& sink, const Tensor& bias_sink, const Tensor& dy,
                                      const Tensor& x);

// [rows, in] → [rows, out] with weight [out, in] or [groups, out, in]; bias [out] or undefined, of the type
// of x. Undefined where the epilogue does not keep it.
Tensor packed_output(const Tensor& x, std::span<const int64_t> rows_per_group, const Tensor& weight,
                     const Tensor& bias, PackedWeight& kept, uint64_t version, const Epilogue& epilogue = {});
// The same with weights in eight bits, without a bias.
Refusal refuse_packed(const Tensor& x, const Int8Weight& weight);
Tensor packed_output(const Tensor& x, std::span<const int64_t> rows_per_group, const Int8Weight& weight,
                     const Epilogue& epilogue = {});
// [rows, in] → [rows, out] in fp32, as the sums come out, with weight [out, in].
Tensor packed_wide_output(const Tensor& x, const Tensor& weight, PackedWeight& kept, uint64_t version);
// [rows, out] → [rows, in].
Tensor packed_input_gradient(const Tensor& dy, std::span<const int64_t> rows_per_group, const Tensor& weight,
                             PackedWeight& kept, uint64_t version, const Epilogue& epilogue = {});
// sink [out, in] or [groups, out, in] += dyᵀ x; bias_sink (undefined: none; one group only) += Σ_t dy_t.
void packed_weight_gradient(const Tensor& sink, const Tensor& bias_sink, const Tensor& dy, const Tensor& x,
                            std::span<const int64_t> rows_per_group);

}  // namespace longhaul::kernels
