// Releases and takes again the memory of a tensor that is needed only for a while. The tensor, all views of
// it, and what autograd has saved of them stay valid as objects; only their memory goes and comes. In
// between nothing may read them: LibTorch refuses views of a tensor without memory, and a pointer into it
// is null.
#pragma once

#include "tensor/tensor.h"

namespace longhaul {

// `whole`: a tensor that begins at the start of its storage and covers all of it.
void release_memory(const Tensor& whole);
void take_memory(const Tensor& whole);  // the memory is not filled; no effect if the tensor has memory
bool has_memory(const Tensor& whole);

}  // namespace longhaul
