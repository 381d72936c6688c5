#include "model/experts/router_bias.h"

#include "base/error.h"

namespace longhaul::model {

void move_router_biases(ParameterSet& parameters, const std::map<std::string, Tensor>& choices, double rate) {
  const at::NoGradGuard no_gradient;
  for (const auto& [name, count] : choices) {
    Parameter* const bias = parameters.holder_of(name);
    LONGHAUL_ASSERT(bias != nullptr, "no router's bias is called {}", name);
    if (bias->parts.at(0).spec.frozen) continue;
    const Tensor n = count.to(at::kDouble);  // whole numbers: the mean is the same on every rank
    // This rank's share alone: the whole may have no memory between steps (ZeRO 3), and is gathered from the
    // shares.
    const Tensor direction = n.mean().sub(n).sign().narrow(0, bias->own.begin, bias->own.length);
    bias->own_value.add_(direction.to(bias->own_value.scalar_type()), rate);
    bias->written();
  }
}

}  // namespace longhaul::model
