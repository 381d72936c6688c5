#include "model/router_bias.h"

#include "base/error.h"

namespace longhaul::model {

void move_router_biases(ParameterSet& parameters, const std::map<std::string, Tensor>& choices, double rate) {
  const at::NoGradGuard no_gradient;
  for (const auto& [name, count] : choices) {
    Parameter* const bias = parameters.holder_of(name);
    LONGHAUL_ASSERT(bias != nullptr, "no router's bias is called {}", name);
    const Tensor n = count.to(at::kDouble);  // whole numbers: the mean is the same on every rank
    bias->value.detach().add_(n.mean().sub(n).sign().to(bias->value.scalar_type()), rate);
    bias->written();
  }
}

}  // namespace longhaul::model
