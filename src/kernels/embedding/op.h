// embedding: rows of a table by token id. The gradient is added to a buffer of its own, columns in parallel and tokens in order, so
// it is the same for every number of threads.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

// ids_t int64 [tokens], table_vd [vocabulary, hidden] → [tokens, hidden]; the gradient of the table is added to sink_vd.
// An id outside the table is a kData error: the tokenizer does not belong to this model.
Tensor embedding(const Tensor& ids_t, const Tensor& table_vd, const Tensor& sink_vd);

}  // namespace longhaul::kernels
