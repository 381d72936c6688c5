// Hashes the bits of a tensor to one number (xxh3 of blocks of one mebibyte, on all threads), to find out
// whether two ranks, or two moments, have the same tensor. Elements are hashed in their logical order,
// whatever the strides; those on a GPU are copied to the host. Equal bits give equal hashes on any number
// of threads; −0 and 0 differ.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace longhaul {

uint64_t content_hash(const Tensor& tensor);

}  // namespace longhaul
