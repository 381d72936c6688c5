// A layer with experts by itself, in fp64, and a model of one layer whose router balances nothing: what the
// tests of routers have in common.
#pragma once

#include <string>
#include <vector>

#include "model/experts/experts.h"
#include "support/models.h"

namespace longhaul::model {

struct RouterOfOneLayer {
  recipe::ModelConfig config;
  ParameterSet parameters;
  Experts experts;
  LocalOps ops;
  Context context{ops, Precision::named("fp64")};

  static std::vector<layout::ParameterSpec> specs(const recipe::ModelConfig& config) {
    std::vector<layout::ParameterSpec> specs = layout::parameters(config);
    std::erase_if(specs, [](const auto& spec) {
      return !spec.tensor.name.starts_with("layers.0.experts.") &&
             !spec.tensor.name.starts_with("layers.0.router.");
    });
    return specs;
  }
  explicit RouterOfOneLayer(const recipe::ModelConfig& of)
      : config(of),
        parameters(specs(of), Precision::named("fp64"), at::kCPU),
        experts(of, {.layer = 0, .name = "layers.0"}, parameters) {
    parameters.allocate();
    parameters.initialise(3);
    context.seed = 11;
    context.step = 4;
  }
  Tensor matrix(const std::string& name) {
    size_t part = 0;
    Parameter* holder = parameters.holder_of("layers.0." + name + ".weight", &part);
    return holder->part_of(holder->value.detach(), part);
  }
  Tensor expert(const Tensor& x, int64_t e) {
    const std::string name = fmt::format("experts.{}.", e);
    return at::mv(matrix(name + "down"),
                  at::silu(at::mv(matrix(name + "gate"), x)) * at::mv(matrix(name + "up"), x));
  }
  Tensor router_gradient() { return parameters.holder_of("layers.0.router.weight")->grad; }
};

inline recipe::ModelConfig router_config() {
  recipe::ModelConfig config = testing::hybrid_experts_post_norm();
  config.layers = 1;
  config.z_loss = 0;
  config.auxiliary_loss = 0;
  return config;
}

}  // namespace longhaul::model
