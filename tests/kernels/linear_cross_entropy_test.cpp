// Every implementation of the loss over every case: values, gradients, threads, instruction sets, scales, and
// what it refuses.
#include "kernels/linear_cross_entropy/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <cmath>

#include "base/error.h"
#include "support/instruction_sets.h"
#include "support/places.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace longhaul::kernels::linear_cross_entropy_test {
namespace {

using namespace longhaul::testing;

struct LossCase {
  std::string name;
  int64_t tokens, hidden, vocabulary, unlabelled;
  double spread;
  LinearCrossEntropyOptions options;
};
void PrintTo(const LossCase& c, std::ostream* out) { *out << c.name; }

std::vector<LossCase> load_cases() {
  const auto table = toml::parse_file(source_folder() + "/src/kernels/linear_cross_entropy/cases.toml");
  std::vector<LossCase> cases;
  for (const auto& node : *table["case"].as_array()) {
    const auto& entry = *node.as_table();
    const auto integer = [&](const char* key) { return *entry[key].value<int64_t>(); };
    cases.push_back({*entry["name"].value<std::string>(),
                     integer("tokens"),
                     integer("hidden"),
                     integer("vocabulary"),
                     integer("unlabelled"),
                     *entry["spread"].value<double>(),
                     {.z_loss = *entry["z_loss"].value<double>(), .chunk = integer("chunk")}});
  }
  return cases;
}

LossCase case_named(const std::string& name) {
  for (const LossCase& c : load_cases()) {
    if (c.name == name) return c;
  }
  throw std::runtime_error("no case " + name);
}

struct LossInputs {
  Tensor hidden, weight, labels;
};

LossInputs inputs_of(const LossCase& c, at::ScalarType type) {
  auto generator = at::detail::createCPUGenerator(3);
  LossInputs in{random_tensor({c.tokens, c.hidden}, 1)
                    .mul(c.spread / std::sqrt(static_cast<double>(c.hidden)))
                    .to(type),
                random_tensor({c.vocabulary, c.hidden}, 2).to(type),
                at::randint(c.vocabulary, {c.tokens}, generator, at::TensorOptions().dtype(at::kLong))};
  for (int64_t t = 0; t < c.tokens && c.unlabelled > 0; t += c.unlabelled) in.labels[t] = -1;
  // Some tokens that are nearly sure of their label: where p − 1 has few digits left.
  for (int64_t t = 1; t < c.tokens; t += 5) {
    const auto label = in.labels[t].item<int64_t>();
    if (label >= 0 && c.spread > 20) in.hidden[t].copy_(in.weight[label].to(at::kDouble).mul(0.25).to(type));
  }
  return in;
}

struct LossResult {
  Tensor loss, d_hidden, d_weight;
};

Tensor wide_zeros(const Tensor& like) {
  return at::zeros(like.sizes(),
                   at::TensorOptions().dtype(like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

LossResult run(const LossInputs& in, const LinearCrossEntropyOptions& options, double outer = 1) {
  const Tensor hidden = in.hidden.detach().clone().requires_grad_(true),
               weight = in.weight.detach().clone().requires_grad_(true);
  const Tensor sink = wide_zeros(weight);
  const Tensor loss = linear_cross_entropy_sum(hidden, weight, in.labels, sink, options);
  loss.mul(outer).backward();
  return {loss.detach(), hidden.grad(), sink};
}

// The whole logits under LibTorch's autograd, in fp64.
Tensor plain_sum(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double z_loss) {
  const Tensor logits = at::mm(hidden, weight.t());
  const Tensor lse = logits.logsumexp(1);
  const Tensor picked = logits.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return lse.sub(picked).add(lse.square(), z_loss).mul(labels.ge(0)).sum();
}

LossResult run_plain(const LossInputs& in, double z_loss, double outer = 1) {
  const Tensor hidden = in.hidden.detach().to(at::kDouble, false, true).requires_grad_(true);
  const Tensor weight = in.weight.detach().to(at::kDouble, false, true).requires_grad_(true);
  const Tensor loss = plain_sum(hidden, weight, in.labels, z_loss);
  loss.mul(outer).backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

class Forced {
 public:
  explicit Forced(const std::string& implementation) {
    Dispatcher::force("linear_cross_entropy", implementation);
  }
  ~Forced() { Dispatcher::force("linear_cross_entropy", std::nullopt); }
};

struct Precisions {
  at::ScalarType type;
  double loss, gradient;
};
// Reasons in cases.toml.
constexpr Precisions kFp64{at::kDouble, 1e-12, 1e-12}, kFp32{at::kFloat, 1e-6, 2e-5},
    kBf16{at::kBFloat16, 1e-6, 1.5e-2};

void expect_close(const LossResult& found, const LossResult& expected, const Precisions& precision,
                  const std::string& what) {
  EXPECT_LT(relative_error(found.loss, expected.loss), precision.loss) << what;
  EXPECT_LT(relative_error(found.d_hidden, expected.d_hidden), precision.gradient) << what << ": d hidden";
  EXPECT_LT(relative_error(found.d_weight, expected.d_weight), precision.gradient) << what << ": d weight";
}

class LinearCrossEntropyCases : public ::testing::TestWithParam<LossCase> {};

TEST_P(LinearCrossEntropyCases, EveryImplementationEqualsTheWholeLogits) {
  const PoisonFreshMemory poison;
  const LossCase& c = GetParam();
  for (const char* implementation : {"fused", "aten", "reference"}) {
    const Forced forced(implementation);
    for (const Precisions& precision : {kFp64, kFp32, kBf16}) {
      if (implementation == std::string("fused") && precision.type == at::kDouble) continue;
      const LossInputs in = inputs_of(c, precision.type);
      const LossResult found = run(in, c.options), expected = run_plain(in, c.options.z_loss);
      EXPECT_EQ(Dispatcher::last("linear_cross_entropy").chosen, implementation);
      expect_close(found, expected, precision,
                   fmt::format("{} {}", implementation, c10::toString(precision.type)));
      const Tensor silent = in.labels.lt(0);
      EXPECT_EQ(found.d_hidden.index({silent}).abs().sum().item<double>(), 0) << "no label, no gradient";
    }
  }
}

// One row of d_hidden and d_weight each may be small beside the largest: compared row by row too, where a
// token is nearly sure.
TEST_P(LinearCrossEntropyCases, EveryRowIsRight) {
  const LossCase& c = GetParam();
  const LossInputs in = inputs_of(c, at::kFloat);
  const LossResult found = run(in, c.options), expected = run_plain(in, c.options.z_loss);
  const auto worst = [](const Tensor& a, const Tensor& b) {
    if (a.numel() == 0) return 0.0;
    return (a.to(at::kDouble) - b)
        .norm(2, {1})
        .div(b.norm(2, {1}).clamp_min(1e-3 * b.norm(2, {1}).max().item<double>() + 1e-30))
        .max()
        .item<double>();
  };
  // 2e-5 of the largest row, for rows a thousandth of it
  EXPECT_LT(worst(found.d_hidden, expected.d_hidden), 1e-3);
  EXPECT_LT(worst(found.d_weight, expected.d_weight), 1e-3);
}

TEST_P(LinearCrossEntropyCases, SameForEveryNumberOfThreads) {
  const LossCase& c = GetParam();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const LossInputs in = inputs_of(c, type);
    expect_same_for_all_threads([&] {
      const LossResult result = run(in, c.options);
      return std::vector<Tensor>{result.loss, result.d_hidden, result.d_weight};
    });
  }
}

TEST_P(LinearCrossEntropyCases, EachTokenAddsUpToTheSum) {
  const PoisonFreshMemory poison;
  const LossCase& c = GetParam();
  for (const Precisions& precision : {kFp64, kFp32, kBf16}) {
    const LossInputs in = inputs_of(c, precision.type);
    const Tensor each =
        linear_cross_entropy_each(in.hidden.clone().requires_grad_(true), in.weight, in.labels, c.options);
    EXPECT_FALSE(each.requires_grad());
    EXPECT_EQ(each.index({in.labels.lt(0)}).abs().sum().item<double>(), 0);
    // the sum is rounded to fp32 once
    EXPECT_LT(relative_error(each.to(at::kDouble).sum(), run(in, c.options).loss), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LinearCrossEntropyCases, ::testing::ValuesIn(load_cases()));

TEST(LinearCrossEntropy, EveryInstructionSetIsRight) {
  const PoisonFreshMemory poison;
  for (const char* name :
       {"blocks of the vocabulary with a tail", "a chunk that is no multiple of anything"}) {
    const LossCase c = case_named(name);
    for_each_instruction_set([&] {
      for (const Precisions& precision : {kFp32, kBf16}) {
        const LossInputs in = inputs_of(c, precision.type);
        expect_close(run(in, c.options), run_plain(in, c.options.z_loss), precision, name);
      }
    });
  }
}

// Gradients other than the promised one, and a second backward pass: the sink was filled in advance and must
// be put right.
TEST(LinearCrossEntropy, EveryUpstreamGradientIsAnswered) {
  const LossCase c = case_named("blocks of the vocabulary with a tail");
  for (const Precisions& precision : {kFp64, kFp32}) {
    const LossInputs in = inputs_of(c, precision.type);
    for (const double promised : {1.0, 0.25}) {
      LinearCrossEntropyOptions options = c.options;
      options.upstream = promised;
      for (const double outer : {1.0, 0.25, -2.0}) {
        expect_close(run(in, options, outer), run_plain(in, options.z_loss, outer), precision,
                     fmt::format("{} promised, {} came", promised, outer));
      }
    }
    const Tensor hidden = in.hidden.clone().requires_grad_(true), sink = wide_zeros(in.weight);
    const Tensor loss = linear_cross_entropy_sum(hidden, in.weight, in.labels, sink, c.options);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    const LossResult once = run_plain(in, c.options.z_loss, 2);
    expect_close({once.loss, hidden.grad(), sink}, once, precision, "two backward passes");
  }
}

TEST(LinearCrossEntropy, AddsToTheSinkAndNothingElse) {
  const LossCase c = case_named("small, odd");
  const LossInputs in = inputs_of(c, at::kFloat);
  const Tensor sink = at::ones(in.weight.sizes());
  {
    const at::NoGradGuard guard;
    linear_cross_entropy_sum(in.hidden.clone().requires_grad_(true), in.weight, in.labels, sink, c.options);
  }
  EXPECT_TRUE(sink.eq(1).all().item<bool>()) << "no gradient was wanted";
  linear_cross_entropy_sum(in.hidden.clone().requires_grad_(true), in.weight, in.labels, sink, c.options)
      .backward();
  EXPECT_LT(relative_error(sink.sub(1), run(in, c.options).d_weight), 1e-5);
  const Tensor hidden = in.hidden.clone().requires_grad_(true);
  linear_cross_entropy_sum(hidden, in.weight, in.labels, Tensor(), c.options).backward();  // a frozen head
  EXPECT_TRUE(hidden.grad().equal(run(in, c.options).d_hidden));
}

TEST(LinearCrossEntropy, GradientsOfTheSumByFiniteDifferences) {
  const LossCase c = case_named("small, odd");
  const LossInputs in = inputs_of(c, at::kDouble);
  for (const char* implementation : {"aten", "reference"}) {
    const Forced forced(implementation);
    check_gradients(
        [&](const std::vector<Tensor>& x) {
          return linear_cross_entropy_sum(x[0], in.weight, in.labels, at::zeros_like(in.weight),
                                          {.z_loss = 0.02, .chunk = 5});
        },
        {in.hidden});
    check_gradients(
        [&](const std::vector<Tensor>& x) { return linear_cross_entropy(x[0], x[1], in.labels, 0.02); },
        {in.hidden, in.weight});
  }
}

// The fused form against differences of itself, along directions through every part of the vocabulary.
TEST(LinearCrossEntropy, FusedGradientsByFiniteDifferences) {
  const LossCase c = case_named("blocks of the vocabulary with a tail");
  const LossInputs in = inputs_of(c, at::kFloat);
  const LossResult found = run(in, c.options);
  ASSERT_EQ(Dispatcher::last("linear_cross_entropy").chosen, "fused");
  const auto sum_at = [&](const Tensor& hidden, const Tensor& weight) {
    return linear_cross_entropy_each(hidden, weight, in.labels, c.options)
        .to(at::kDouble)
        .sum()
        .item<double>();
  };
  const auto expect_slope = [](const Tensor& gradient, const Tensor& direction, double difference) {
    const double slope = gradient.to(at::kDouble).mul(direction.to(at::kDouble)).sum().item<double>();
    // fp32 losses of about 500 over steps of 1e-2
    EXPECT_NEAR(slope, difference, 5e-3 * std::max(1.0, std::abs(difference)));
  };
  const double h = 1e-2;
  const Tensor along = random_tensor(in.hidden.sizes(), 8, at::kFloat);
  expect_slope(
      found.d_hidden, along,
      (sum_at(in.hidden + h * along, in.weight) - sum_at(in.hidden - h * along, in.weight)) / (2 * h));
  for (int64_t first = 0; first < c.vocabulary; first += 100) {
    const int64_t rows = std::min<int64_t>(100, c.vocabulary - first);
    Tensor direction = at::zeros_like(in.weight);
    direction.narrow(0, first, rows).copy_(random_tensor({rows, c.hidden}, 9, at::kFloat));
    expect_slope(
        found.d_weight, direction,
        (sum_at(in.hidden, in.weight + h * direction) - sum_at(in.hidden, in.weight - h * direction)) /
            (2 * h));
  }
}

TEST(LinearCrossEntropy, MeanIsTheSumOverTheCountAndDifferentiableInBoth) {
  const PoisonFreshMemory poison;
  const LossCase c = case_named("a chunk that is no multiple of anything");
  for (const Precisions& precision : {kFp64, kFp32, kBf16}) {
    const LossInputs in = inputs_of(c, precision.type);
    const double count = in.labels.ge(0).sum().item<double>();
    const Tensor hidden = in.hidden.clone().requires_grad_(true),
                 weight = in.weight.clone().requires_grad_(true);
    const Tensor mean = linear_cross_entropy(hidden, weight, in.labels, 0.01);
    mean.mul(3).backward();
    const LossResult expected = run_plain(in, 0.01, 3 / count);
    EXPECT_EQ(weight.grad().scalar_type(), precision.type);
    expect_close({mean.mul(count).detach(), hidden.grad(), weight.grad()}, expected, precision, "mean");
  }
  const LossInputs none = inputs_of(case_named("no token has a label"), at::kFloat);
  const Tensor hidden = none.hidden.clone().requires_grad_(true);
  const Tensor mean = linear_cross_entropy(hidden, none.weight, none.labels, 0.01);
  mean.backward();
  EXPECT_EQ(mean.item<float>(), 0);
  EXPECT_EQ(hidden.grad().abs().sum().item<float>(), 0);
}

TEST(LinearCrossEntropy, KnownValues) {
  const Tensor hidden = random_tensor({23, 8}, 1, at::kFloat), weight = at::zeros({31, 8}),
               labels = at::arange(23);
  EXPECT_NEAR(linear_cross_entropy_sum(hidden, weight, labels, Tensor()).item<double>(), 23 * std::log(31.0),
              1e-5);
}

// Logits of ±1000: the largest is taken out before any exponential.
TEST(LinearCrossEntropy, LargeLogitsStayFinite) {
  const LossCase c = case_named("blocks of the vocabulary with a tail");
  LossInputs in = inputs_of(c, at::kFloat);
  in.hidden.mul_(300);
  const LossResult found = run(in, {});
  EXPECT_LT(relative_error(found.loss, run_plain(in, 0).loss), 1e-6);
  EXPECT_TRUE(found.d_hidden.isfinite().all().item<bool>() && found.d_weight.isfinite().all().item<bool>());
}

// The last word, which no vector of the last block reaches, is e^200 times likelier than any other.
TEST(LinearCrossEntropy, TheLargestLogitMayBeTheLast) {
  const LossCase c = case_named("blocks of the vocabulary with a tail");
  const LossInputs in = inputs_of(c, at::kFloat);
  const Tensor hidden = in.hidden[1].to(at::kDouble);
  in.weight[c.vocabulary - 1].copy_(hidden.mul(200).div(hidden.square().sum()));
  for_each_instruction_set(
      [&] { expect_close(run(in, c.options), run_plain(in, c.options.z_loss), kFp32, "the last word"); });
}

TEST(LinearCrossEntropy, NaNsAreSeen) {
  LossInputs in = inputs_of(case_named("blocks of the vocabulary with a tail"), at::kBFloat16);
  in.hidden[3][2] = NAN;
  EXPECT_TRUE(run(in, {}).loss.isnan().item<bool>());
}

// The same bits as without kept copies; each copy is packed once for as long as the weight stays as it is.
TEST(LinearCrossEntropy, KeptCopiesServeEveryCall) {
  for (const char* name : {"blocks of the vocabulary with a tail", "channels beyond a chunk of k"}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const LossCase c = case_named(name);
      const LossInputs in = inputs_of(c, type);
      PackedWeight copies;
      const auto expect_same = [&](uint64_t version, int64_t packings) {
        const Tensor hidden = in.hidden.clone().requires_grad_(true), sink = wide_zeros(in.weight);
        const Tensor loss =
            linear_cross_entropy_sum(hidden, in.weight, in.labels, sink, c.options, {&copies, version});
        loss.backward();
        const LossResult expected = run(in, c.options);
        EXPECT_TRUE(loss.equal(expected.loss) && hidden.grad().equal(expected.d_hidden) &&
                    sink.equal(expected.d_weight));
        const Tensor each =
            linear_cross_entropy_each(in.hidden, in.weight, in.labels, c.options, {&copies, version});
        EXPECT_TRUE(each.equal(linear_cross_entropy_each(in.hidden, in.weight, in.labels, c.options)));
        EXPECT_EQ(copies.packings(), packings) << name;
      };
      linear_cross_entropy_each(in.hidden, in.weight, in.labels, c.options, {&copies, 1});
      EXPECT_EQ(copies.packings(), 1) << "without gradients one copy is enough";
      expect_same(1, 2);
      expect_same(1, 2);
      in.weight.mul_(0.5);
      expect_same(1, 4);
      expect_same(2, 6);
    }
  }
}

// A second backward pass through kept copies, and a weight whose rows lie apart, which is copied at each call
// and never packed for later.
TEST(LinearCrossEntropy, KeptCopiesOfAnotherUpstreamAndOfStrides) {
  const LossCase c = case_named("blocks of the vocabulary with a tail");
  const LossInputs in = inputs_of(c, at::kFloat);
  PackedWeight copies;
  const Tensor hidden = in.hidden.clone().requires_grad_(true), sink = wide_zeros(in.weight);
  linear_cross_entropy_sum(hidden, in.weight, in.labels, sink, c.options, {&copies, 1}).mul(3).backward();
  const LossResult three = run_plain(in, c.options.z_loss, 3);
  EXPECT_LT(relative_error(hidden.grad(), three.d_hidden), kFp32.gradient);
  EXPECT_LT(relative_error(sink, three.d_weight), kFp32.gradient);
  EXPECT_EQ(copies.packings(), 2);
  PackedWeight unused;
  const Tensor apart = in.weight.t().contiguous().t();
  EXPECT_TRUE(linear_cross_entropy_each(in.hidden, apart, in.labels, c.options, {&unused, 1})
                  .equal(linear_cross_entropy_each(in.hidden, in.weight, in.labels, c.options)));
  EXPECT_EQ(unused.packings(), 0);
}

// Strided arguments are taken as they are meant.
TEST(LinearCrossEntropy, TakesEveryStride) {
  const LossCase c = case_named("small, odd");
  const LossInputs in = inputs_of(c, at::kFloat);
  LossInputs strided{in.hidden.t().contiguous().t(), in.weight.t().contiguous().t(),
                     at::stack({in.labels, in.labels}, 1).select(1, 0)};
  const LossResult found = run(strided, c.options), expected = run(in, c.options);
  EXPECT_TRUE(found.loss.equal(expected.loss) && found.d_hidden.equal(expected.d_hidden) &&
              found.d_weight.equal(expected.d_weight));
}

TEST(LinearCrossEntropy, RefusesWrongArguments) {
  const Tensor hidden = random_tensor({23, 8}, 1), weight = random_tensor({31, 8}, 2),
               labels = at::zeros({23}, at::kLong);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, at::full({23}, 31, at::kLong), weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, at::zeros({24}, at::kLong), weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight.to(at::kFloat), labels, weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, labels, weight, {.chunk = -1}), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, labels, weight.t().contiguous()), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, labels, random_tensor({8, 31}, 1).t()), Error);
  EXPECT_THROW(linear_cross_entropy(hidden, weight.narrow(1, 0, 4), labels, 0), Error);
}

}  // namespace
}  // namespace longhaul::kernels::linear_cross_entropy_test
