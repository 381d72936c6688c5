#include "model/linear.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/group_linear/op.h"
#include "model/served_adapters.h"
#include "model/spiking_product.h"

namespace longhaul::model {

Linear::Linear(ParameterSet& parameters, const std::string& prefix, const std::string& storage,
               const std::vector<std::string>& outputs, bool bias, Weights weights) {
  const auto names = [&](const char* suffix) {
    std::vector<std::string> result;
    for (const std::string& output : outputs) result.push_back(prefix + "." + output + suffix);
    return result;
  };
  weight_ = parameters.add_runs(prefix + "." + storage + ".weight", names(".weight"));
  if (bias) bias_ = parameters.add_runs(prefix + "." + storage + ".bias", names(".bias"));
  for (const Parameter* const run : weight_.runs) adapters_.emplace_back(parameters, *run);
  spiking_ = parameters.spiking();
  served_ = parameters.served();
  for (const Parameter* const run : weight_.runs) served_->offer(*run);
  if (weights == Weights::kWide) return;
  for (Parameter* const run : weight_.runs) parameters.keep_in_groups(*run);
}

kernels::LinearWeights Linear::weights(size_t run) const {
  Parameter* const weight = weight_.runs[run];
  Parameter* const bias = bias_.runs.empty() ? nullptr : bias_.runs[run];
  return {
      .weight = weight->value,
      .bias = bias != nullptr ? bias->value : Tensor(),
      .sinks = {.weight = weight->sink(), .bias = bias != nullptr ? bias->sink() : kernels::GradientSink()},
      .kept = weight->kept()};
}

bool Linear::plain() const {
  return !adapted() && spiking_ == nullptr && std::ranges::none_of(weight_.runs, [&](const Parameter* run) {
    return run->groups.has_value() || served_->has(*run);
  });
}

bool Linear::adapted() const { return std::ranges::any_of(adapters_, &Adapters::any); }

kernels::LinearWeights Linear::weights() const {
  LONGHAUL_ASSERT(weight_.runs.size() == 1, "{} lies on other ranks than what stands beside it",
                  weight_.runs.back()->name);
  LONGHAUL_ASSERT(plain(), "{} has adapters, spikes or eight bits, and an operator takes the weight alone",
                  weight_.runs[0]->name);
  return weights(0);
}

std::pair<Tensor, uint64_t> Linear::merged() const {
  LONGHAUL_ASSERT(
      std::ranges::none_of(weight_.runs, [&](const Parameter* run) { return served_->has(*run); }),
      "{} is joined with another matrix, and has adapters of several tasks", weight_.runs[0]->name);
  if (!adapted()) {
    const kernels::LinearWeights own = weights();
    return {own.weight, own.kept.version};
  }
  LONGHAUL_ASSERT(weight_.runs.size() == 1, "{} lies on other ranks than what stands beside it",
                  weight_.runs.back()->name);
  const kernels::LinearWeights own = weights(0);
  return {adapters_[0].merged(own), adapters_[0].version() + own.kept.version};
}

Tensor Linear::product(const Tensor& x, size_t run, const kernels::LinearWeights& own) const {
  return served_->adapted(x, *weight_.runs[run], product_alone(x, run, own));
}

// Without the adapters that are served beside it.
Tensor Linear::product_alone(const Tensor& x, size_t run, const kernels::LinearWeights& own) const {
  if (adapters_[run].any()) return adapters_[run].product(x, own);
  if (spiking_ != nullptr) return spiking_product(*spiking_, x, *weight_.runs[run], own);
  if (const auto& groups = weight_.runs[run]->groups) return kernels::group_linear(x, *groups, own.bias);
  return kernels::linear(x, own.weight, own.bias, own.sinks, own.kept);
}

Tensor Linear::forward(const Tensor& x) const {
  std::vector<Tensor> outputs;
  for (size_t run = 0; run < weight_.runs.size(); ++run) outputs.push_back(product(x, run, weights(run)));
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
}

// Takes the bias from `own` where ranks sum what they make of it.
Summand Linear::once_biased(const Context& context, kernels::LinearWeights& own) const {
  LONGHAUL_ASSERT(weight_.runs.size() == 1, "{} lies on other ranks than what stands beside it",
                  weight_.runs.back()->name);
  Summand sum;
  if (context.ops.tensor_ranks() > 1) {
    own.bias = Tensor(), own.sinks.bias = {};
    if (!bias_.runs.empty()) sum.bias_d = bias_.use();
  }
  return sum;
}

Summand Linear::summand(const Context& context, const Tensor& x) const {
  Summand sum = summand_of(context, nullptr);
  sum.x_ti = x;
  return sum;
}

Summand Linear::summand_of(const Context& context, const std::function<Tensor(const Tensor&)>& before) const {
  kernels::LinearWeights own = weights(0);
  Summand sum = once_biased(context, own);
  sum.product = [this, own, before](const Tensor& rows) {
    return product(before ? before(rows) : rows, 0, own);
  };
  return sum;
}

Summand Linear::summand(
    const Context& context,
    const std::function<Tensor(const Tensor&, const kernels::LinearWeights&)>& product) const {
  kernels::LinearWeights own = weights();
  Summand sum = once_biased(context, own);
  sum.product = [product, own](const Tensor& rows) { return product(rows, own); };
  return sum;
}

}  // namespace longhaul::model
