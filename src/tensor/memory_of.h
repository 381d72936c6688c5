// Memory that a tensor has for a while only: the tensor, and all views of it, stay, and what autograd has saved of them; what they hold comes
// and goes. Between the two nothing may read them: views of a tensor without memory are refused by LibTorch, a pointer into it is null.
#pragma once

#include "tensor/tensor.h"

namespace longhaul {

// `whole`: a tensor that begins where its storage does and takes all of it.
void release_memory(const Tensor& whole);
void take_memory(const Tensor& whole);  // not filled; nothing where it has memory
bool has_memory(const Tensor& whole);

}  // namespace longhaul
