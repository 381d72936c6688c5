// A tensor that several layers share: the first layer that asks creates it, and its gradient is the sum of
// their gradients.
#pragma once

#include <string>

#include "model/parameter.h"

namespace longhaul::model {

inline Parameter& shared_parameter(ParameterSet& parameters, const std::string& name) {
  Parameter* const made = parameters.holder_of(name);
  return made != nullptr ? *made : parameters.add_stacked(name, {name});
}

}  // namespace longhaul::model
