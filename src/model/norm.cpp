#include "model/norm.h"

#include "kernels/norm/op.h"

namespace longhaul::model {

Norm::Norm(ParameterSet& parameters, const std::string& prefix, recipe::Norm kind, double eps, bool bias)
    : kind_(kind), weight_(&parameters.add_stacked(prefix + ".weight", {prefix + ".weight"})), eps_(eps) {
  if (kind == recipe::Norm::kLayer && bias) bias_ = &parameters.add_stacked(prefix + ".bias", {prefix + ".bias"});
}

Tensor Norm::forward(const Tensor& x) const {
  if (kind_ == recipe::Norm::kRms) return kernels::rms_norm(x, weight_->use(), eps_);
  return kernels::layer_norm(x, weight_->use(), bias_ != nullptr ? bias_->use() : Tensor(), eps_);
}

kernels::JoinedNorm Norm::forward_joined(const Tensor& x, const Tensor& branch, double alpha, double beta) const {
  const auto kind = kind_ == recipe::Norm::kRms ? kernels::NormKind::kRms : kernels::NormKind::kLayer;
  return kernels::join_norm(kind, x, branch, alpha, beta, weight_->use(), bias_ != nullptr ? bias_->use() : Tensor(), eps_);
}

}  // namespace longhaul::model
