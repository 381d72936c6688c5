// Rows of a block of the CPU recurrence that go through one product: what lies above the diagonal of their part of the scores is left out.
#pragma once

#include <cstdint>

namespace longhaul::kernels {

constexpr int64_t kStrip = 32;  // packed_k of bf16: a pack of that many tokens has no padding

}  // namespace longhaul::kernels
