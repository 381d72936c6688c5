// Cases of delta_rule (src/kernels/delta_rule/cases.toml), for the tests of each of its forms.
#pragma once

#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/delta_rule/op.h"
#include "support/places.h"
#include "support/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels::delta_rule_test {

using longhaul::testing::random_tensor;

struct DeltaCase {
  std::string name, decay;
  std::vector<int64_t> offsets{0};
  int64_t key_heads = 1, heads = 1, key = 1, value = 1;
  double steep = 0, least_beta = 0, most_beta = 1;
  bool spikes = false;
  int64_t tokens() const { return offsets.back(); }
  int64_t documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
};
inline void PrintTo(const DeltaCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<DeltaCase> delta_cases() {
  const auto table = toml::parse_file(source_folder() + "/src/kernels/delta_rule/cases.toml");
  std::vector<DeltaCase> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    DeltaCase c{.name = *entry["name"].value<std::string>(), .decay = *entry["decay"].value<std::string>()};
    for (const auto& length : *entry["lengths"].as_array())
      c.offsets.push_back(c.offsets.back() + *length.value<int64_t>());
    c.key_heads = *entry["key_heads"].value<int64_t>();
    c.heads = *entry["heads"].value<int64_t>();
    c.key = *entry["key"].value<int64_t>();
    c.value = *entry["value"].value<int64_t>();
    c.steep = entry["steep"].value_or(0.0);
    c.least_beta = *entry["beta"][0].value<double>();
    c.most_beta = *entry["beta"][1].value<double>();
    c.spikes = entry["spikes"].value_or(false);
    cases.push_back(c);
  }
  return cases;
}

inline DeltaRuleInputs delta_inputs(const DeltaCase& c, at::ScalarType type = at::kDouble) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto unit = [&](uint64_t seed) {
    const Tensor x = random_tensor({c.tokens(), c.key_heads, c.key}, seed);
    return (x / x.norm(2, 2, true)).to(type);
  };
  DeltaRuleInputs in{
      .q_tgk = random_tensor({c.tokens(), c.key_heads, c.key}, 1, type),
      .k_tgk = unit(2),
      .v_thv = random_tensor({c.tokens(), c.heads, c.value}, 3, type),
      .beta_th =
          (random_tensor({c.tokens(), c.heads}, 4).sigmoid() * (c.most_beta - c.least_beta) + c.least_beta)
              .to(wide),
      .initial_state_nhkv = random_tensor({c.documents(), c.heads, c.key, c.value}, 5, wide),
      .offsets = to_tensor(c.offsets),
      .scale = 0.7};
  if (c.decay == "none") return in;
  const Tensor normal = random_tensor(
      c.decay == "head" ? std::vector{c.tokens(), c.heads} : std::vector{c.tokens(), c.heads, c.key}, 6);
  Tensor g = normal.sigmoid().mul(-c.steep);
  if (c.spikes) {
    g = at::where(normal.gt(1), at::scalar_tensor(-1e4, at::kDouble),
                  at::where(normal.lt(-1), at::scalar_tensor(-0.0, at::kDouble), g));
  }
  in.log_decay = g.to(wide);
  return in;
}

inline std::vector<Tensor*> members(DeltaRuleInputs& in) {
  std::vector<Tensor*> all{&in.q_tgk, &in.k_tgk, &in.v_thv, &in.beta_th, &in.initial_state_nhkv};
  if (in.log_decay.defined()) all.push_back(&in.log_decay);
  return all;
}
inline constexpr const char* kMembers[] = {"q", "k", "v", "beta", "initial state", "log_decay"};

inline DeltaRuleInputs in_fp64(DeltaRuleInputs in) {
  for (Tensor* each : members(in)) *each = each->to(at::kDouble);
  return in;
}

inline Tensor delta_loss(const LinearRecurrenceResult& result) {
  return result.o_thd.to(at::kDouble).mul(random_tensor(result.o_thd.sizes(), 21)).sum() +
         result.final_state_nhkv.to(at::kDouble)
             .mul(random_tensor(result.final_state_nhkv.sizes(), 22))
             .sum();
}

using DeltaOperator = std::function<LinearRecurrenceResult(const DeltaRuleInputs&)>;
// o, final states, and gradients of all members.
inline std::vector<Tensor> delta_evaluated(DeltaRuleInputs in, const DeltaOperator& f) {
  for (Tensor* each : members(in)) *each = each->detach().clone().requires_grad_(true);
  const LinearRecurrenceResult result = f(in);
  delta_loss(result).backward();
  std::vector<Tensor> all{result.o_thd.detach(), result.final_state_nhkv.detach()};
  for (const Tensor* each : members(in)) all.push_back(each->grad());
  return all;
}

inline double share(const Tensor& a, const Tensor& b) {
  const Tensor wide_a = a.detach().to(at::kDouble), wide_b = b.detach().to(at::kDouble);
  const double difference = (wide_a - wide_b).norm().item<double>(), size = wide_b.norm().item<double>();
  if (!std::isfinite(difference)) return INFINITY;
  return difference == 0 ? 0 : difference / std::max(size, 1e-30);
}

inline void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                        double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_LT(share(found[i], expected[i]), tolerance) << (i == 0   ? "o"
                                                           : i == 1 ? "final state"
                                                                    : kMembers[i - 2]);
  }
}

struct DeltaForced {
  explicit DeltaForced(const char* implementation) { Dispatcher::force("delta_rule", implementation); }
  ~DeltaForced() { Dispatcher::force("delta_rule", std::nullopt); }
};

}  // namespace longhaul::kernels::delta_rule_test
