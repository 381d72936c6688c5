// product_check: whether matrix products are right, to the bit, and how fast they are (docs/sources/reliability.md §5.4, the checksum of products).
//
// The operands are small whole numbers, so that every sum of products is a whole number below 2^24: exact in fp32 (and so in tf32, bf16 and fp16 with
// fp32 sums) in any order of summation, and one right answer stands for processors and GPUs of every kind, where a table of checksums needs an
// entry a model. It is checked by C x = A (B x) in integers (Freivalds 1977): with x of whole numbers above zero one wrong element never passes, and
// the row that it is in is known. Products in bf16 round once: the right one of the rounded sums. Each dtype is multiplied again and again for a
// while, for errors that come and go. Products of real numbers have no such answer: their bits are a fingerprint of the machine's model.
#pragma once

#include <vector>

#include "control/checks/machine_checks.h"
#include "tensor/device.h"

namespace longhaul::bench {

control::CheckFinding product_check(const control::CheckContext& context);

// Rows of c = a bᵀ that are wrong; a [m, k] and b [n, k] whole numbers, c [m, n], in any dtype that holds them.
std::vector<int64_t> wrong_rows(const Tensor& a_mk, const Tensor& b_nk, const Tensor& c_mn);

}  // namespace longhaul::bench
