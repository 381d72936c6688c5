// Small parameter sets made by hand: fused, unfused, stacked experts, frozen tensors; seeded values and
// gradients by logical name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/parameter.h"
#include "support/tensors.h"

namespace longhaul::optim::testing {

inline layout::ParameterSpec spec(const std::string& name, layout::Shape shape, bool decay,
                                  bool trainable = true) {
  layout::ParameterSpec result;
  result.tensor = {name, std::move(shape), name == "norm" ? layout::Role::kNorm : layout::Role::kChannelUp};
  result.decay = decay;
  result.trainable = trainable;
  return result;
}

// Query [5, 7], key [3, 7], a norm [37], which is fp32 beside bf16 weights too, two experts of gate [4, 6]
// and up [4, 6] (one kind with decay, one without), and a table of more than one block.
inline std::vector<layout::ParameterSpec> small_specs() {
  return {spec("query", {5, 7}, true),        spec("key", {3, 7}, true),
          spec("norm", {37}, false),          spec("expert.0.gate", {4, 6}, true),
          spec("expert.0.up", {4, 6}, false), spec("expert.1.gate", {4, 6}, true),
          spec("expert.1.up", {4, 6}, false), spec("table", {331, 257}, true)};
}

inline model::ParameterSet fused_set(Precision precision) {
  model::ParameterSet set(small_specs(), precision, at::kCPU);
  set.add_stacked("query_key", {"query", "key"});
  set.add_stacked("norm", {"norm"});
  set.add_experts("experts", {{"expert.0.gate", "expert.0.up"}, {"expert.1.gate", "expert.1.up"}});
  set.add_stacked("table", {"table"});
  set.allocate();
  return set;
}

inline model::ParameterSet unfused_set(Precision precision) {
  model::ParameterSet set(small_specs(), precision, at::kCPU);
  for (const auto& each : small_specs()) set.add_stacked(each.tensor.name, {each.tensor.name});
  set.allocate();
  return set;
}

inline Tensor value_of(const model::ParameterSet& set, const std::string& name) {
  size_t part = 0;
  const model::Parameter* holder = set.holder_of(name, &part);
  return holder->part_of(holder->value.detach(), part);
}

inline Tensor grad_of(const model::ParameterSet& set, const std::string& name) {
  size_t part = 0;
  const model::Parameter* holder = set.holder_of(name, &part);
  return holder->part_of(holder->grad, part);
}

inline uint64_t seed_of(const std::string& name, uint64_t salt) {
  uint64_t seed = salt * 1000003 + 17;
  for (const char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  return seed % 1000000007;
}

inline void fill_values(const model::ParameterSet& set) {
  for (const auto& each : set.specs()) {
    Tensor value = value_of(set, each.tensor.name);
    value.copy_(longhaul::testing::random_tensor(value.sizes(), seed_of(each.tensor.name, 0)));
  }
}

inline void fill_gradients(const model::ParameterSet& set, uint64_t step) {
  for (const auto& each : set.specs()) {
    if (!set.holder_of(each.tensor.name)->trainable()) continue;
    Tensor grad = grad_of(set, each.tensor.name);
    grad.copy_(longhaul::testing::random_tensor(grad.sizes(), seed_of(each.tensor.name, step)));
  }
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         at::equal(a.contiguous().view({-1}).view(at::kByte), b.contiguous().view({-1}).view(at::kByte));
}

}  // namespace longhaul::optim::testing
