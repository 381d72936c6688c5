#include "model/linear.h"

#include "kernels/linear/op.h"

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

Tensor Linear::forward(Context& context, const Tensor& x) const {
  return kernels::linear(x, weight_->value, bias(), {.weight = weight_->grad, .bias = bias_gradient(), .postponed = context.postponed_weight_gradients},
                         {.copies = packed_.get(), .version = weight_->version});
}

Tensor Linear::forward_without_bias(Context& context, const Tensor& x) const {
  return kernels::linear(x, weight_->value, Tensor(), {.weight = weight_->grad, .postponed = context.postponed_weight_gradients},
                         {.copies = packed_.get(), .version = weight_->version});
}

}  // namespace longhaul::model
