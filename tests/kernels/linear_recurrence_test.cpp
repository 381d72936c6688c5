#include "kernels/linear_recurrence/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include "base/error.h"
#include "kernels/documents.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::PoisonFreshMemory;
using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;

struct Case {
  std::string name, decay;
  std::vector<int64_t> offsets{0};
  int64_t heads, key_heads, key, value;
  double steep;
  int64_t tokens() const { return offsets.back(); }
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> load_cases() {
  const auto table = toml::parse_file(LONGHAUL_SOURCE_DIR "/src/kernels/linear_recurrence/cases.toml");
  std::vector<Case> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    Case c{.name = *entry["name"].value<std::string>(), .decay = *entry["decay"].value<std::string>()};
    for (const auto& length : *entry["lengths"].as_array()) c.offsets.push_back(c.offsets.back() + *length.value<int64_t>());
    c.heads = *entry["heads"].value<int64_t>();
    c.key_heads = *entry["key_heads"].value<int64_t>();
    c.key = *entry["key"].value<int64_t>();
    c.value = *entry["value"].value<int64_t>();
    c.steep = *entry["steep"].value<double>();
    cases.push_back(c);
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

Inputs inputs_of(const Case& c, at::ScalarType type = at::kDouble) {
  Inputs in{random_tensor({c.tokens(), c.heads, c.key}, 1, type), random_tensor({c.tokens(), c.key_heads, c.key}, 2, type),
            random_tensor({c.tokens(), c.key_heads, c.value}, 3, type), Tensor(),
            random_tensor({static_cast<int64_t>(c.offsets.size()) - 1, c.heads, c.key, c.value}, 4,
                          type == at::kDouble ? at::kDouble : at::kFloat)};
  const auto decay = [&](at::IntArrayRef sizes) {
    return random_tensor(sizes, 5).sigmoid().mul(-c.steep).to(type == at::kDouble ? at::kDouble : at::kFloat);
  };
  if (c.decay == "head") in.log_decay = decay({c.heads});
  if (c.decay == "head_token") in.log_decay = decay({c.tokens(), c.heads});
  if (c.decay == "key_token") in.log_decay = decay({c.tokens(), c.heads, c.key});
  return in;
}

// o_t = scale Σ_{j ≤ t} (q_t ⊙ e^{b_t − b_j})·k_j v_j, plus the initial state's part: the quadratic form, differentiated by LibTorch.
LinearRecurrenceResult quadratic(const Case& c, const Inputs& in, double scale) {
  const auto group = c.heads / c.key_heads;
  const Tensor k = in.k.repeat_interleave(group, 1), v = in.v.repeat_interleave(group, 1);
  std::vector<Tensor> outputs, states;
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    const auto part = [&](const Tensor& x) { return x.narrow(0, begin, length).transpose(0, 1); };  // [H, L, D]
    Tensor g = at::zeros({c.heads, length, c.key}, in.q.options());
    if (c.decay == "head") g = in.log_decay.view({c.heads, 1, 1}).expand({c.heads, length, c.key});
    if (c.decay == "head_token") g = part(in.log_decay).unsqueeze(2).expand({c.heads, length, c.key});
    if (c.decay == "key_token") g = part(in.log_decay);
    const Tensor b = g.cumsum(1);
    const Tensor causal = at::ones({length, length}, in.q.options()).tril().unsqueeze(0).unsqueeze(3);
    const Tensor decay = at::where(causal.to(at::kBool), b.unsqueeze(2) - b.unsqueeze(1), -INFINITY).exp();
    const Tensor scores = (part(in.q).unsqueeze(2) * part(k).unsqueeze(1) * decay).sum(3);
    const Tensor initial = in.initial[static_cast<int64_t>(n)];
    outputs.push_back((scale * (at::matmul(scores, part(v)) + at::matmul(part(in.q) * b.exp(), initial))).transpose(0, 1));
    if (length == 0) {
      states.push_back(initial);
      continue;
    }
    const Tensor end = b.narrow(1, length - 1, 1);
    states.push_back(end.exp().transpose(1, 2) * initial + at::matmul((part(k) * (end - b).exp()).transpose(1, 2), part(v)));
  }
  return {at::cat(outputs, 0), at::stack(states)};
}

// A loss that weighs every output, so that a wrong element of any of them shows.
Tensor weigh(const LinearRecurrenceResult& result) {
  return result.o_thd.to(at::kDouble).mul(random_tensor(result.o_thd.sizes(), 21)).sum() +
         result.final_state_nhkv.to(at::kDouble).mul(random_tensor(result.final_state_nhkv.sizes(), 22)).sum();
}

struct Evaluation {
  LinearRecurrenceResult result;
  std::vector<Tensor> gradients;
};

template <class F>
Evaluation evaluate(const Inputs& values, bool decay_gradient, const F& f) {
  Inputs in = values;
  for (Tensor* t : {&in.q, &in.k, &in.v, &in.initial}) *t = t->detach().clone().requires_grad_(true);
  if (in.log_decay.defined()) in.log_decay = in.log_decay.detach().clone().requires_grad_(decay_gradient);
  Evaluation evaluation{f(in), {}};
  weigh(evaluation.result).backward();
  for (const Tensor& t : in.all()) {
    if (t.requires_grad()) evaluation.gradients.push_back(t.grad());
  }
  return evaluation;
}

void expect_same(const Evaluation& a, const Evaluation& b, double tolerance) {
  EXPECT_LT(relative_error(a.result.o_thd, b.result.o_thd), tolerance) << "o";
  EXPECT_LT(relative_error(a.result.final_state_nhkv, b.result.final_state_nhkv), tolerance) << "final state";
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  const char* names[] = {"dq", "dk", "dv", "d initial state", "d log_decay"};
  for (size_t i = 0; i < a.gradients.size(); ++i) EXPECT_LT(relative_error(a.gradients[i], b.gradients[i]), tolerance) << names[i];
}

class LinearRecurrenceCases : public ::testing::TestWithParam<Case> {};

TEST_P(LinearRecurrenceCases, ReferenceEqualsTheQuadraticForm) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c);
  const auto offsets = offsets_tensor(c.offsets);
  // The steep case overflows the quadratic form's decay gradient (∞ − ∞); its values still must agree.
  const bool decay_gradient = c.steep < 100;
  const auto reference = evaluate(in, decay_gradient, [&](const Inputs& x) {
    return linear_recurrence_reference(x.q, x.k, x.v, x.log_decay, x.initial, offsets, {.scale = 0.7});
  });
  const auto expected = evaluate(in, decay_gradient, [&](const Inputs& x) { return quadratic(c, x, 0.7); });
  expect_same(reference, expected, 1e-9);
}

TEST_P(LinearRecurrenceCases, ChunkedEqualsReferenceForEveryChunkLength) {
  const PoisonFreshMemory poison;
  const Case& c = GetParam();
  const bool eligible = c.decay == "head" || c.decay == "none";
  const auto offsets = offsets_tensor(c.offsets);
  const std::pair<at::ScalarType, double> types[] = {{at::kDouble, 1e-9}, {at::kFloat, 2e-5}, {at::kBFloat16, 2e-2}};
  for (const auto& [type, tolerance] : types) {
    const Inputs in = inputs_of(c, type);
    for (const bool reverse : {false, true}) {
      const auto run = [&](auto&& function, int64_t chunk) {
        return evaluate(in, false, [&](const Inputs& x) {
          return function(x.q, x.k, x.v, x.log_decay, x.initial, offsets, {.scale = 0.7, .reverse = reverse, .chunk = chunk});
        });
      };
      const auto reference = run(linear_recurrence_reference, 64);
      for (const int64_t chunk : {1, 16, 64, 256}) {
        expect_same(run(linear_recurrence, chunk), reference, tolerance);
        EXPECT_EQ(Dispatcher::last("linear_recurrence").chosen, eligible ? "chunked" : "reference");
      }
    }
  }
}

TEST_P(LinearRecurrenceCases, PackedDocumentsEqualOneAtATime) {
  const Case& c = GetParam();
  const Inputs in = inputs_of(c);
  const auto packed = linear_recurrence(in.q, in.k, in.v, in.log_decay, in.initial, offsets_tensor(c.offsets));
  for (size_t n = 0; n + 1 < c.offsets.size(); ++n) {
    const auto begin = c.offsets[n], length = c.offsets[n + 1] - begin;
    const auto part = [&](const Tensor& x) { return x.defined() && x.dim() > 1 ? x.narrow(0, begin, length) : x; };
    const auto alone = linear_recurrence(part(in.q), part(in.k), part(in.v), part(in.log_decay),
                                         in.initial.narrow(0, static_cast<int64_t>(n), 1), Tensor());
    EXPECT_LT(relative_error(packed.o_thd.narrow(0, begin, length), alone.o_thd), 1e-12);
    EXPECT_LT(relative_error(packed.final_state_nhkv[static_cast<int64_t>(n)], alone.final_state_nhkv[0]), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearRecurrenceCases, ::testing::ValuesIn(load_cases()));

TEST(LinearRecurrence, SplittingASequenceCarriesTheState) {
  const Case c{.name = "split", .decay = "head", .offsets = {0, 100}, .heads = 2, .key_heads = 2, .key = 8, .value = 8, .steep = 0.5};
  const Inputs in = inputs_of(c);
  const auto whole = linear_recurrence(in.q, in.k, in.v, in.log_decay, in.initial, Tensor());
  Tensor state = in.initial;
  std::vector<Tensor> outputs;
  for (const auto& [begin, length] : std::vector<std::pair<int64_t, int64_t>>{{0, 37}, {37, 1}, {38, 62}}) {
    const auto part = linear_recurrence(in.q.narrow(0, begin, length), in.k.narrow(0, begin, length), in.v.narrow(0, begin, length),
                                        in.log_decay, state, Tensor());
    outputs.push_back(part.o_thd);
    state = part.final_state_nhkv;
  }
  EXPECT_LT(relative_error(at::cat(outputs), whole.o_thd), 1e-12);
  EXPECT_LT(relative_error(state, whole.final_state_nhkv), 1e-12);
}

TEST(LinearRecurrence, StateIsTheDecayedSumOfOuterProducts) {
  const Tensor k = random_tensor({9, 1, 3}, 1), v = random_tensor({9, 1, 2}, 2), gamma = at::full({1}, -0.25, at::kDouble);
  const auto result = linear_recurrence(k, k, v, gamma, Tensor(), Tensor());
  Tensor expected = at::zeros({3, 2}, at::kDouble);
  for (int64_t j = 0; j < 9; ++j) expected += std::exp(-0.25 * static_cast<double>(8 - j)) * at::outer(k[j][0], v[j][0]);
  EXPECT_LT(relative_error(result.final_state_nhkv[0][0], expected), 1e-12);
}

TEST(LinearRecurrence, KeepsItsStateOverAMillionTokensWithoutDecay) {
  const int64_t tokens = 1000000;
  const Tensor ones = at::ones({tokens, 1, 1});
  const auto result = linear_recurrence(ones, ones, ones, Tensor(), Tensor(), Tensor(), {.chunk = 256});
  EXPECT_EQ(result.final_state_nhkv.item<float>(), 1e6f);  // whole numbers below 2^24 are exact in fp32
  EXPECT_EQ(result.o_thd[tokens - 1].item<float>(), 1e6f);
}

TEST(LinearRecurrence, GradientsMatchFiniteDifferences) {
  for (const std::string decay : {"head", "head_token", "key_token"}) {
    const Case c{.name = decay, .decay = decay, .offsets = {0, 7, 8, 12}, .heads = 2, .key_heads = 1, .key = 3, .value = 2, .steep = 1};
    const Inputs in = inputs_of(c);
    longhaul::testing::check_gradients(
        [&](const std::vector<Tensor>& x) {
          return weigh(linear_recurrence(x[0], x[1], x[2], x[4], x[3], offsets_tensor(c.offsets), {.scale = 0.5, .chunk = 4}));
        },
        in.all());
  }
}

TEST(LinearRecurrence, RefusesBadArgumentsByName) {
  const Tensor q = at::zeros({4, 2, 3}), k = at::zeros({4, 2, 3}), v = at::zeros({4, 2, 5});
  const auto refused = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refused([&] { linear_recurrence(at::zeros({4, 2}), k, v, {}, {}, {}); }), HasSubstr("bad argument q"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, at::zeros({4, 3, 3}), v, {}, {}, {}); }), HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k.to(at::kDouble), v, {}, {}, {}); }), HasSubstr("bad argument k"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, at::zeros({3, 2, 5}), {}, {}, {}); }), HasSubstr("bad argument v"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, at::zeros({7}), {}, {}); }), HasSubstr("bad argument log_decay"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, {}, at::zeros({2, 2, 3, 5}), {}); }), HasSubstr("bad argument initial_state"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, {}, {}, at::tensor({0, 3}, at::kLong)); }), HasSubstr("bad argument offsets"));
  EXPECT_THAT(refused([&] { linear_recurrence(q, k, v, {}, {}, at::tensor({0, 3, 2, 4}, at::kLong)); }), HasSubstr("bad argument offsets"));
}

}  // namespace
}  // namespace longhaul::kernels
