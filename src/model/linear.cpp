#include "model/linear.h"

#include "base/error.h"

namespace longhaul::model {

Linear::Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage, const std::vector<std::string>& outputs,
               bool bias) {
  const auto names = [&](const char* suffix) {
    std::vector<std::string> result;
    for (const std::string& output : outputs) result.push_back(prefix + "." + output + suffix);
    return result;
  };
  weight_ = parameters.add_runs(prefix + "." + storage + ".weight", names(".weight"));
  if (bias) bias_ = parameters.add_runs(prefix + "." + storage + ".bias", names(".bias"));
}

kernels::LinearWeights Linear::weights(size_t run) const {
  Parameter* const weight = weight_.runs[run];
  Parameter* const bias = bias_.runs.empty() ? nullptr : bias_.runs[run];
  return {.weight = weight->value,
          .bias = bias != nullptr ? bias->value : Tensor(),
          .sinks = {.weight = weight->sink(), .bias = bias != nullptr ? bias->sink() : kernels::GradientSink()},
          .kept = weight->kept()};
}

kernels::LinearWeights Linear::weights() const {
  LONGHAUL_ASSERT(weight_.runs.size() == 1, "{} lies on other ranks than what stands beside it", weight_.runs.back()->name);
  return weights(0);
}

Tensor Linear::forward(const Tensor& x) const {
  std::vector<Tensor> outputs;
  for (size_t run = 0; run < weight_.runs.size(); ++run) {
    const kernels::LinearWeights own = weights(run);
    outputs.push_back(kernels::linear(x, own.weight, own.bias, own.sinks, own.kept));
  }
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
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
    if (!bias_.runs.empty()) sum.bias_d = bias_.use();
  }
  sum.product = [product, own](const Tensor& rows) { return product(rows, own); };
  return sum;
}

}  // namespace longhaul::model
