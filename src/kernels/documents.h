// Document boundaries as kernels take them: an int64 tensor [N+1] on the CPU that begins with 0, is
// ascending, and ends with the number of tokens.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace longhaul::kernels {

// The boundaries as plain numbers; an undefined tensor means one document. Throws an error that names `op`
// for anything that is not such a list.
std::vector<int64_t> document_offsets(const Tensor& offsets, int64_t tokens, const char* op);

// Throws a kUsage error that names the operator, the argument, what was expected and what was found.
[[noreturn]] void refuse_argument(const char* op, const char* argument, const std::string& expected,
                                  const std::string& found);
std::string shape_text(const Tensor& tensor);  // "[4, 2, 64] bf16 on cuda:0"

}  // namespace longhaul::kernels
