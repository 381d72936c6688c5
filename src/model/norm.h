// Norm: RMSNorm with or without weights, or LayerNorm with or without bias, over the hidden axis, by itself
// or together with the residual addition before it (kernels/norm). Statistics and weights are fp32 (fp64 in
// fp64 models).
#pragma once

#include <string>

#include "model/parameter.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::kernels {
struct JoinedNorm;  // kernels/norm/op.h
}

namespace longhaul::model {

class Norm {
 public:
  Norm(ParameterSet& parameters, const std::string& prefix,
       // holds prefix.weight and prefix.bias where the kind of norm has them
       const recipe::ModelConfig& config);
  Tensor forward(const Tensor& x_td) const;
  // of α x + β branch
  kernels::JoinedNorm forward_joined(const Tensor& x_td, const Tensor& branch_td, double alpha,
                                     double beta) const;

 private:
  recipe::Norm kind_;
  Tensor weight() const;

  Parameter *weight_ = nullptr, *bias_ = nullptr;
  Tensor ones_;  // in place of weights
  double eps_;
};

}  // namespace longhaul::model
