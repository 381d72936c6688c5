// Computes the global L2 norm of all main gradients with the same bits, whichever way the ranks share the
// gradients (train.elastic). Squares are summed for each row of each logical tensor, and no share cuts a
// row between data-parallel ranks; every rank writes the rows that it has into one list of all rows of its
// stage, and the list is added up in its order. When tensor-parallel ranks hold parts of a row, the parts
// are summed separately. The cost is one number for each row (for a vector: each element) that the ranks
// exchange, while gradient_norm.h exchanges a single number. CPU only.
#pragma once

#include "optim/gradient_norm.h"
#include "optim/shard.h"

namespace longhaul::optim {

// Like gradient_norm; `sum` adds numbers up over the ranks that differ in these axes.
GradientNorm gradient_norm_by_rows(const model::ParameterSet& parameters, double scale, const Reducer& sum);

}  // namespace longhaul::optim
