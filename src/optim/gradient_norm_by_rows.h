// The global L2 norm of all main gradients, to the bit the same however ranks share them (train.elastic): squares are summed row by row of each
// logical tensor, which no share cuts; every rank writes the rows it has into one list of all rows of its stage, and adds the list up in its
// order. Of a row that tensor ranks hold parts of, parts are summed apart. It costs a number for each row (of a vector: each element), which the
// ranks exchange; gradient_norm.h adds up one for all. On the CPU.
#pragma once

#include "optim/gradient_norm.h"
#include "optim/shard.h"

namespace longhaul::optim {

// As gradient_norm; `sum` adds numbers up over the ranks that differ in these axes.
GradientNorm gradient_norm_by_rows(const model::ParameterSet& parameters, double scale, const Reducer& sum);

}  // namespace longhaul::optim
