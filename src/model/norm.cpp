#include "model/norm.h"

#include "kernels/norm/op.h"

namespace longhaul::model {

Norm::Norm(ParameterSet& parameters, const std::string& prefix, const recipe::ModelConfig& config)
    : kind_(config.norm), eps_(config.norm_eps) {
  if (kind_ == recipe::Norm::kSimpleRms) {
    ones_ = at::ones({config.hidden}, parameters.wide_options());
    return;
  }
  weight_ = &parameters.add_stacked(prefix + ".weight", {prefix + ".weight"});
  if (kind_ == recipe::Norm::kLayer && config.bias)
    bias_ = &parameters.add_stacked(prefix + ".bias", {prefix + ".bias"});
}

Tensor Norm::weight() const { return weight_ != nullptr ? weight_->use() : ones_; }

Tensor Norm::forward(const Tensor& x) const {
  if (kind_ != recipe::Norm::kLayer) return kernels::rms_norm(x, weight(), eps_);
  return kernels::layer_norm(x, weight(), bias_ != nullptr ? bias_->use() : Tensor(), eps_);
}

kernels::JoinedNorm Norm::forward_joined(const Tensor& x, const Tensor& branch, double alpha,
                                         double beta) const {
  const auto kind = kind_ == recipe::Norm::kLayer ? kernels::NormKind::kLayer : kernels::NormKind::kRms;
  return kernels::join_norm(kind, x, branch, alpha, beta, weight(),
                            bias_ != nullptr ? bias_->use() : Tensor(), eps_);
}

}  // namespace longhaul::model
