// The bits of a tensor as one number (xxh3 of blocks of a mebibyte, all threads), to see whether two ranks, or two moments, have the same. In the order of
// its elements, whatever its strides; a GPU's are copied to the host. Equal bits give equal hashes on any number of threads; −0 and 0 differ.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace longhaul {

uint64_t content_hash(const Tensor& tensor);

}  // namespace longhaul
