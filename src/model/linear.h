// Linear: one matrix product for one or several logical weights of the same input (query, key and value; gate and up). Its
// gradient goes straight into the parameters' main gradients (kernels/linear), and the weight is kept packed as well.
#pragma once

#include <string>
#include <vector>

#include "kernels/linear/feed_forward.h"
#include "model/context.h"
#include "model/parameter.h"

namespace longhaul::model {

class Linear {
 public:
  // prefix "layers.3.mixer", storage "qkv", outputs {"query", "key", "value"}: holds prefix.query.weight, … (and .bias).
  Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage, const std::vector<std::string>& outputs,
         bool bias);
  Tensor forward(Context& context, const Tensor& x_ti) const;  // [tokens, in] → [tokens, Σ out]

  kernels::LinearWeights weights(Context& context) const;  // for an operator that has the product inside

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace longhaul::model
