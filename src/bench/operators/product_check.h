// product_check: checks whether matrix products are right, to the bit, and measures how fast they are
// (docs/sources/reliability.md §5.4, the checksum of products).
//
// The operands are small whole numbers, so that every sum of products is a whole number below 2^24: it is
// exact in fp32 (and so in tf32, bf16 and fp16 with fp32 sums) in any order of summation. So there is one
// right answer for processors and GPUs of every kind, where a table of checksums would need an entry for
// each model. The answer is checked by C x = A (B x) in integers (Freivalds 1977): with x of positive whole
// numbers, a single wrong element is always detected, and its row is known. Products in bf16 round once:
// their right answer is the rounded exact sum. Each dtype is multiplied repeatedly for a while, to catch
// intermittent errors. Products of real numbers have no such answer: their bits are a fingerprint of the
// machine's model.
#pragma once

#include <vector>

#include "control/checks/machine_checks.h"
#include "tensor/device.h"

namespace longhaul::bench {

control::CheckFinding product_check(const control::CheckContext& context);

// The rows of c = a bᵀ that are wrong; a [m, k] and b [n, k] are whole numbers, c [m, n], in any dtype that
// holds them.
std::vector<int64_t> wrong_rows(const Tensor& a_mk, const Tensor& b_nk, const Tensor& c_mn);

}  // namespace longhaul::bench
