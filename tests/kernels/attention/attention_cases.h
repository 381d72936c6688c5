// Cases of attention from cases.toml, their inputs, and the evaluation of values and gradients.
#pragma once

#include <toml++/toml.h>

#include "kernels/attention/op.h"
#include "kernels/attention/visibility.h"
#include "support/places.h"
#include "support/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::testing {

// See cases.toml for why.
inline constexpr std::pair<at::ScalarType, double> kFastTolerances[] = {{at::kFloat, 2e-5},
                                                                        {at::kBFloat16, 1.5e-2}};

struct AttentionInputs {
  Tensor q, k, v;
  AttentionInputs to(at::ScalarType type) const { return {q.to(type), k.to(type), v.to(type)}; }
  AttentionInputs in_one_tensor() const {
    const Tensor all = at::cat({q, k, v}, 1);
    return {all.narrow(1, 0, q.size(1)), all.narrow(1, q.size(1), k.size(1)),
            all.narrow(1, q.size(1) + k.size(1), v.size(1))};
  }
};

struct AttentionCase {
  std::string name;
  std::vector<int64_t> offsets{0}, key_offsets{0};
  int64_t heads = 1, key_heads = 1, key = 1, value = 1, window = 0;
  bool causal = true;

  kernels::Visibility visible() const {
    kernels::Visibility result = kernels::Visibility::packed(offsets, key_offsets);
    result.window = window;
    result.causal = causal;
    return result;
  }

  template <class Attention>
  kernels::AttentionResult call(const Attention& attention, const AttentionInputs& in, double scale) const {
    return attention(in.q, in.k, in.v, to_tensor(offsets),
                     offsets == key_offsets ? Tensor() : to_tensor(key_offsets),
                     {.scale = scale, .window = window, .causal = causal});
  }
};

inline void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<AttentionCase> attention_cases() {
  const auto table = toml::parse_file(source_folder() + "/src/kernels/attention/cases.toml");
  std::vector<AttentionCase> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    if (entry["bench"].value_or(false)) continue;
    const auto number = [&](const char* key) { return *entry[key].value<int64_t>(); };
    AttentionCase c{.name = *entry["name"].value<std::string>()};
    const auto sums = [](const toml::array& lengths, std::vector<int64_t>& into) {
      for (const auto& length : lengths) into.push_back(into.back() + *length.value<int64_t>());
    };
    sums(*entry["lengths"].as_array(), c.offsets);
    sums(entry["key_lengths"] ? *entry["key_lengths"].as_array() : *entry["lengths"].as_array(),
         c.key_offsets);
    c.heads = number("heads");
    c.key_heads = number("key_heads");
    c.key = number("key");
    c.value = number("value");
    c.window = number("window");
    c.causal = entry["causal"].value_or(true);
    cases.push_back(c);
  }
  return cases;
}

inline AttentionInputs inputs_of(const AttentionCase& c, at::ScalarType type = at::kDouble) {
  const int64_t tokens = c.offsets.back(), keys = c.key_offsets.back();
  return {random_tensor({tokens, c.heads, c.key}, 1, type),
          random_tensor({keys, c.key_heads, c.key}, 2, type),
          random_tensor({keys, c.key_heads, c.value}, 3, type)};
}

struct AttentionEvaluation {
  kernels::AttentionResult result;
  std::vector<Tensor> gradients;
};

// A loss that weighs every output, so that a wrong element of any of them shows. Strided inputs stay strided.
template <class F>
AttentionEvaluation evaluate(const AttentionInputs& values, const F& f, bool weigh_logsumexp = true) {
  AttentionInputs in = values;
  for (Tensor* t : {&in.q, &in.k, &in.v}) *t = t->detach().requires_grad_(true);
  for (const Tensor* t : {&in.q, &in.k, &in.v}) t->mutable_grad() = Tensor();
  AttentionEvaluation evaluation{f(in), {}};
  const Tensor& lse = evaluation.result.logsumexp_th;
  Tensor loss =
      evaluation.result.o_thd.to(at::kDouble).mul(random_tensor(evaluation.result.o_thd.sizes(), 21)).sum();
  if (weigh_logsumexp) {
    const Tensor weighted = lse.to(at::kDouble).mul(random_tensor(lse.sizes(), 22));
    loss = loss + at::where(lse.isinf(), at::zeros_like(weighted), weighted).sum();
  }
  loss.backward();
  evaluation.gradients = {in.q.grad(), in.k.grad(), in.v.grad()};
  return evaluation;
}

// Relative to the largest value, but no finer than for values of 1: where softmax has one key its gradients
// are 0 but for rounding.
inline void expect_near(const Tensor& a, const Tensor& b, double tolerance, const char* what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  if (a.numel() == 0) return;
  const Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  EXPECT_TRUE(x.isposinf().equal(y.isposinf()) && x.isneginf().equal(y.isneginf())) << what;
  const Tensor finite = y.isinf().logical_not(), zero = at::zeros_like(y);
  const Tensor difference = at::where(finite, x - y, zero).abs();
  const double scale = std::max(at::where(finite, y, zero).abs().max().item<double>(), 1.0);
  EXPECT_FALSE(difference.isnan().any().item<bool>()) << what;
  EXPECT_LT(difference.max().item<double>() / scale, tolerance) << what;
}

inline void expect_same(const AttentionEvaluation& a, const AttentionEvaluation& b, double tolerance) {
  expect_near(a.result.o_thd, b.result.o_thd, tolerance, "o");
  expect_near(a.result.logsumexp_th, b.result.logsumexp_th, tolerance, "logsumexp");
  const char* names[] = {"dq", "dk", "dv"};
  for (size_t i = 0; i < 3; ++i) expect_near(a.gradients[i], b.gradients[i], tolerance, names[i]);
}

}  // namespace longhaul::testing
