#include "model/linear.h"

namespace longhaul::model {

Linear::Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage, const std::vector<std::string>& outputs,
               bool bias) {
  const auto names = [&](const char* suffix) {
    std::vector<std::string> result;
    for (const std::string& output : outputs) result.push_back(prefix + "." + output + suffix);
    return result;
  };
  weight_ = &parameters.add_stacked(prefix + "." + storage + ".weight", names(".weight"));
  if (bias) bias_ = &parameters.add_stacked(prefix + "." + storage + ".bias", names(".bias"));
}

kernels::LinearWeights Linear::weights() const {
  return {.weight = weight_->value,
          .bias = bias_ != nullptr ? bias_->value : Tensor(),
          .sinks = {.weight = weight_->sink(), .bias = bias_ != nullptr ? bias_->sink() : kernels::GradientSink()},
          .kept = weight_->kept()};
}

kernels::LinearWeights Linear::summed_weights(Context& context) const {
  kernels::LinearWeights own = weights();
  if (context.ops.tensor_ranks() > 1) own.bias = Tensor(), own.sinks.bias = {};
  return own;
}

Tensor Linear::finish_sum(Context& context, const Tensor& product, const layout::SequenceView& view) const {
  if (context.ops.tensor_ranks() == 1) return product;
  const Tensor sum = context.ops.sum_to_own_tokens(product, view);
  return bias_ != nullptr ? sum + bias_->use() : sum;
}

Tensor Linear::forward(const Tensor& x) const {
  const kernels::LinearWeights own = weights();
  return kernels::linear(x, own.weight, own.bias, own.sinks, own.kept);
}

Tensor Linear::forward_summed(Context& context, const Tensor& x, const layout::SequenceView& view) const {
  const kernels::LinearWeights own = summed_weights(context);
  return finish_sum(context, kernels::linear(x, own.weight, own.bias, own.sinks, own.kept), view);
}

}  // namespace longhaul::model
