// The bias of a router's choice, which evens out the experts' load without a loss (DeepSeek-V3, arXiv 2412.19437 §2.1.2; 2408.15664): after
// every step an expert that had more choices than the mean gets a little less of it, one that had fewer a little more. It has no gradient; it
// is a parameter that does not train, whole on every rank, and in every checkpoint.
#pragma once

#include <map>
#include <string>

#include "model/parameter.h"

namespace longhaul::model {

// b += rate · sign(mean(n) − n). choices: by the bias' name, int64 [experts] of all tokens of the step, on all ranks.
void move_router_biases(ParameterSet& parameters, const std::map<std::string, Tensor>& choices, double rate);

}  // namespace longhaul::model
