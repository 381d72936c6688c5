// Cases, inputs and evaluation of linear_recurrence, shared by its tests.
#pragma once

#include <toml++/toml.h>

#include <cmath>

#include "kernels/documents.h"
#include "kernels/linear_recurrence/op.h"
#include "support/places.h"
#include "support/tensors.h"

namespace longhaul::kernels {

using longhaul::testing::random_tensor;
using longhaul::testing::rms_error;

struct Case {
  std::string name, decay;
  std::vector<int64_t> offsets{0};
  int64_t heads, key_heads, key, value;
  double steep;
  bool spikes = false;
  int64_t tokens() const { return offsets.back(); }
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline Case case_from(const toml::table& entry, const std::string& decay) {
  Case c{.name = *entry["name"].value<std::string>(), .decay = decay};
  for (const auto& length : *entry["lengths"].as_array())
    c.offsets.push_back(c.offsets.back() + *length.value<int64_t>());
  c.heads = *entry["heads"].value<int64_t>();
  c.key_heads = *entry["key_heads"].value<int64_t>();
  c.key = *entry["key"].value<int64_t>();
  c.value = *entry["value"].value<int64_t>();
  c.steep = entry["steep"].value_or(0.0);
  c.spikes = entry["spikes"].value_or(false);
  return c;
}

inline std::vector<Case> load_cases() {
  const auto table = toml::parse_file(source_folder() + "/src/kernels/linear_recurrence/cases.toml");
  std::vector<Case> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    cases.push_back(case_from(entry, *entry["decay"].value<std::string>()));
  }
  return cases;
}

struct Inputs {
  Tensor q, k, v, log_decay, initial;
  std::vector<Tensor> all() const {
    std::vector<Tensor> result{q, k, v, initial};
    if (log_decay.defined()) result.push_back(log_decay);
    return result;
  }
};

inline Inputs inputs_of(const Case& c, at::ScalarType type = at::kDouble) {
  Inputs in{random_tensor({c.tokens(), c.heads, c.key}, 1, type),
            random_tensor({c.tokens(), c.key_heads, c.key}, 2, type),
            random_tensor({c.tokens(), c.key_heads, c.value}, 3, type), Tensor(),
            random_tensor({static_cast<int64_t>(c.offsets.size()) - 1, c.heads, c.key, c.value}, 4,
                          type == at::kDouble ? at::kDouble : at::kFloat)};
  const auto decay = [&](at::IntArrayRef sizes) {
    const Tensor normal = random_tensor(sizes, 5);
    Tensor g = normal.sigmoid().mul(-c.steep);
    if (c.spikes)
      g = at::where(normal.gt(1), at::scalar_tensor(-1e4, at::kDouble),
                    at::where(normal.lt(-1), at::scalar_tensor(-0.0, at::kDouble), g));
    return g.to(type == at::kDouble ? at::kDouble : at::kFloat);
  };
  if (c.decay == "head") in.log_decay = decay({c.heads});
  if (c.decay == "head_token") in.log_decay = decay({c.tokens(), c.heads});
  if (c.decay == "key_token") in.log_decay = decay({c.tokens(), c.heads, c.key});
  return in;
}

// A loss that weighs every output, so that a wrong element of any of them shows.
inline Tensor weigh(const LinearRecurrenceResult& result) {
  return result.o_thd.to(at::kDouble).mul(random_tensor(result.o_thd.sizes(), 21)).sum() +
         result.final_state_nhkv.to(at::kDouble)
             .mul(random_tensor(result.final_state_nhkv.sizes(), 22))
             .sum();
}

// The same numbers in fp64.
inline Inputs widened(const Inputs& in) {
  const auto wide = [](const Tensor& x) { return x.defined() ? x.to(at::kDouble) : Tensor(); };
  return {wide(in.q), wide(in.k), wide(in.v), wide(in.log_decay), wide(in.initial)};
}

// The worst of rms_error over stretches of eight tokens of one channel of all heads, [T, H, D]: what is lost
// at few places shows.
inline double worst_stretch(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  const auto stretches = [](const Tensor& x) {  // [stretches, 8 H, D]; the last ones overlap
    return x.detach().to(at::kDouble).unfold(0, 8, 1).permute({0, 3, 1, 2}).flatten(1, 2);
  };
  const Tensor wide_a = stretches(a), wide_b = stretches(b);
  const Tensor ratios =
      (wide_a - wide_b).square().sum(1).sqrt().div(wide_b.square().sum(1).sqrt().clamp_min(1e-300));
  return ratios.isfinite().all().item<bool>() ? ratios.max().item<double>() : INFINITY;
}

struct Evaluation {
  LinearRecurrenceResult result;
  std::vector<Tensor> gradients;
};

// `upstream`: the gradient that the loss gets.
template <class F>
Evaluation evaluate(const Inputs& values, bool decay_gradient, const F& f, double upstream = 1) {
  Inputs in = values;
  for (Tensor* t : {&in.q, &in.k, &in.v, &in.initial}) *t = t->detach().clone().requires_grad_(true);
  if (in.log_decay.defined()) in.log_decay = in.log_decay.detach().clone().requires_grad_(decay_gradient);
  Evaluation evaluation{f(in), {}};
  weigh(evaluation.result).mul(upstream).backward();
  for (const Tensor& t : in.all()) {
    if (t.requires_grad()) evaluation.gradients.push_back(t.grad());
  }
  return evaluation;
}

// decay_tolerance: of the gradient of the decay; 0: as the others.
inline void expect_close(const Evaluation& a, const Evaluation& b, double tolerance,
                         double decay_tolerance = 0) {
  EXPECT_LT(rms_error(a.result.o_thd, b.result.o_thd), tolerance) << "o";
  EXPECT_LT(rms_error(a.result.final_state_nhkv, b.result.final_state_nhkv), tolerance) << "final state";
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  const char* names[] = {"dq", "dk", "dv", "d initial state", "d log_decay"};
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    EXPECT_LT(rms_error(a.gradients[i], b.gradients[i]),
              i == 4 && decay_tolerance > 0 ? decay_tolerance : tolerance)
        << names[i];
  }
}

// While alive, this implementation of the operator answers.
struct Forced {
  explicit Forced(const char* implementation) { Dispatcher::force("linear_recurrence", implementation); }
  ~Forced() { Dispatcher::force("linear_recurrence", std::nullopt); }
};

}  // namespace longhaul::kernels
