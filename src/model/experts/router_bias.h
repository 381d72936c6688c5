// The bias of a router's choice, which balances the load of experts without a loss (DeepSeek-V3, arXiv
// 2412.19437 §2.1.2; 2408.15664). After every step, the bias of an expert with more choices than the mean is
// lowered a little, and that of an expert with fewer is raised. The bias has no gradient; it is a parameter
// that does not train, is whole on every rank, and is part of every checkpoint.
#pragma once

#include <map>
#include <string>

#include "model/parameter.h"

namespace longhaul::model {

// b += rate · sign(mean(n) − n). choices: by the name of the bias, int64 [experts] counts over all tokens of
// the step on all ranks.
void move_router_biases(ParameterSet& parameters, const std::map<std::string, Tensor>& choices, double rate);

}  // namespace longhaul::model
