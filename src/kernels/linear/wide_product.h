// Products of bf16 matrices on a GPU with fp32 sums and fp32 results: cuBLAS's, through LibTorch, which has
// this form on a GPU only. A product of two bf16 results would be rounded once more, and a gradient that is
// made first and added afterwards costs two more passes over the weight.
//
// Rows may lie apart: the last dimension of each matrix, or of its transpose, is contiguous. Nothing waits.
#pragma once

#include "kernels/cuda/library_check.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// Whether these functions take x, and matrices like it. The first question on a device compares their results
// there with what they should be (kernels/cuda/library_check.h). Where LibTorch's products are right and only
// its forms that write and add in place are not, a product is made first and then copied or added.
bool has_wide_product(const Tensor& x);
const LibraryCheck& wide_product_check();           // for tests
const LibraryCheck& wide_product_in_place_check();  // likewise

// out [M, N] fp32 = a [M, K] · b [K, N]
void wide_product(const Tensor& out_mn, const Tensor& a_mk, const Tensor& b_kn);
// sum [M, N] fp32 += a [M, K] · b [K, N], in place
void add_wide_product(const Tensor& sum_mn, const Tensor& a_mk, const Tensor& b_kn);

}  // namespace longhaul::kernels
