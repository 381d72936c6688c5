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

Tensor Linear::forward(const Tensor& x) const {
  const kernels::LinearWeights own = weights();
  return kernels::linear(x, own.weight, own.bias, own.sinks, own.kept);
}

Summand Linear::summand(const Context& context, const Tensor& x) const {
  Summand sum = summand(context, [](const Tensor& rows, const kernels::LinearWeights& own) {
    return kernels::linear(rows, own.weight, own.bias, own.sinks, own.kept);
  });
  sum.x_ti = x;
  return sum;
}

Summand Linear::summand(const Context& context, const std::function<Tensor(const Tensor&, const kernels::LinearWeights&)>& product) const {
  kernels::LinearWeights own = weights();
  Summand sum;
  if (context.ops.tensor_ranks() > 1) {
    own.bias = Tensor(), own.sinks.bias = {};
    if (bias_ != nullptr) sum.bias_d = bias_->use();
  }
  sum.product = [product, own](const Tensor& rows) { return product(rows, own); };
  return sum;
}

}  // namespace longhaul::model
