#include "model/norm.h"

#include "kernels/rms_norm/op.h"

namespace longhaul::model {

Norm::Norm(ParameterSet& parameters, const std::string& prefix, recipe::Norm kind, double eps, bool bias)
    : kind_(kind), weight_(&parameters.add_stacked(prefix + ".weight", {prefix + ".weight"})), eps_(eps) {
  if (kind == recipe::Norm::kLayer && bias) bias_ = &parameters.add_stacked(prefix + ".bias", {prefix + ".bias"});
}

Tensor Norm::forward(const Tensor& x) const {
  if (kind_ == recipe::Norm::kRms) return kernels::rms_norm(x, weight_->use(), eps_);
  return at::layer_norm(x, {x.size(1)}, weight_->use(), bias_ != nullptr ? bias_->use() : Tensor(), eps_);
}

}  // namespace longhaul::model
