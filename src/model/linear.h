// Linear: one matrix product for one or several logical weights of the same input (query, key and value; gate and up). Its
// gradient goes straight into the parameters' main gradients (kernels/linear), and the weight is kept packed as well.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul/packed_weight.h"
#include "model/context.h"
#include "model/parameter.h"

namespace longhaul::model {

class Linear {
 public:
  // prefix "layers.3.mixer", storage "qkv", outputs {"query", "key", "value"}: holds prefix.query.weight, … (and .bias).
  Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage, const std::vector<std::string>& outputs,
         bool bias);
  Tensor forward(Context& context, const Tensor& x_ti) const;  // [tokens, in] → [tokens, Σ out]

  // For an operator that adds the bias itself and adds to its main gradient. Undefined without bias.
  Tensor forward_without_bias(Context& context, const Tensor& x_ti) const;
  Tensor bias() const { return bias_ != nullptr ? bias_->value : Tensor(); }
  Tensor bias_gradient() const { return bias_ != nullptr ? bias_->grad : Tensor(); }

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::shared_ptr<kernels::PackedWeight> packed_ = std::make_shared<kernels::PackedWeight>();  // of the weight; copies of a Linear share it
};

}  // namespace longhaul::model
