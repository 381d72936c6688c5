// The chunked loss against the whole logits under autograd.
#include "kernels/linear_cross_entropy/op.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using namespace longhaul::testing;

constexpr int64_t kTokens = 23, kHidden = 8, kVocabulary = 31;

Tensor labels() {
  auto generator = at::detail::createCPUGenerator(3);
  Tensor labels = at::randint(kVocabulary, {kTokens}, generator, at::TensorOptions().dtype(at::kLong));
  for (const int64_t t : {0, 7, 22}) labels[t] = -1;
  return labels;
}

struct Result {
  Tensor loss, d_hidden, d_weight;
};

Result run(const Tensor& hidden_in, const Tensor& weight_in, const LinearCrossEntropyOptions& options, double outer = 1) {
  const Tensor hidden = hidden_in.detach().clone().requires_grad_(true), weight = weight_in.detach().clone().requires_grad_(true);
  const Tensor sink = at::zeros(weight.sizes(), at::TensorOptions().dtype(weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  const Tensor loss = linear_cross_entropy_sum(hidden, weight, labels(), sink, options);
  loss.mul(outer).backward();
  return {loss.detach(), hidden.grad(), sink};
}

Result run_reference(const Tensor& hidden_in, const Tensor& weight_in, double z_loss, double outer = 1) {
  const Tensor hidden = hidden_in.detach().to(at::kDouble).clone().requires_grad_(true), weight = weight_in.detach().to(at::kDouble).clone().requires_grad_(true);
  const Tensor loss = linear_cross_entropy_reference(hidden, weight, labels(), z_loss);
  loss.mul(outer).backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

// bf16: the logits' gradients are rounded to bf16 before the two products, and those once more; logits and loss stay fp32.
TEST(LinearCrossEntropy, EqualsReferenceForEveryChunkLength) {
  const PoisonFreshMemory poison;
  const std::tuple<at::ScalarType, double, double> types[] = {{at::kDouble, 1e-13, 1e-12}, {at::kFloat, 1e-6, 1e-5}, {at::kBFloat16, 1e-6, 1.5e-2}};
  for (const auto& [type, loss_tolerance, gradient_tolerance] : types) {
    const Tensor hidden = random_tensor({kTokens, kHidden}, 1, type).clone(), weight = random_tensor({kVocabulary, kHidden}, 2, type).clone();
    for (const double z_loss : {0.0, 0.02}) {
      const Result expected = run_reference(hidden, weight, z_loss, 0.25);
      for (const int64_t chunk : {1, 5, 23, 1024}) {
        const Result found = run(hidden, weight, {.z_loss = z_loss, .chunk = chunk}, 0.25);
        EXPECT_LT(relative_error(found.loss, expected.loss), loss_tolerance) << type << " chunk " << chunk;
        EXPECT_LT(relative_error(found.d_hidden, expected.d_hidden), gradient_tolerance) << type << " chunk " << chunk;
        EXPECT_LT(relative_error(found.d_weight, expected.d_weight), gradient_tolerance) << type << " chunk " << chunk;
        EXPECT_EQ(found.d_hidden[7].abs().sum().item<double>(), 0) << "no label, no gradient";
      }
    }
  }
}

TEST(LinearCrossEntropy, GradientOfHidden) {
  const Tensor weight = random_tensor({kVocabulary, kHidden}, 2);
  check_gradients(
      [&](const std::vector<Tensor>& in) { return linear_cross_entropy_sum(in[0], weight, labels(), at::zeros_like(weight), {.z_loss = 0.02, .chunk = 5}); },
      {random_tensor({kTokens, kHidden}, 1)});
}

TEST(LinearCrossEntropy, EachTokenAddsUpToTheSum) {
  const Tensor hidden = random_tensor({kTokens, kHidden}, 1), weight = random_tensor({kVocabulary, kHidden}, 2);
  const LinearCrossEntropyOptions options{.z_loss = 0.02, .chunk = 5};
  const Tensor each = linear_cross_entropy_each(hidden, weight, labels(), options);
  EXPECT_EQ(each[7].item<double>(), 0);
  EXPECT_LT(relative_error(each.sum(), run(hidden, weight, options).loss), 1e-14);
  EXPECT_FALSE(linear_cross_entropy_each(hidden.clone().requires_grad_(true), weight, labels(), options).requires_grad());
}

TEST(LinearCrossEntropy, KnownValues) {
  const Tensor weight = at::zeros({kVocabulary, kHidden}, at::kDouble), hidden = random_tensor({kTokens, kHidden}, 1);
  EXPECT_NEAR(linear_cross_entropy_sum(hidden, weight, labels(), weight).item<double>(), (kTokens - 3) * std::log(double{kVocabulary}), 1e-11);
  const Tensor none = at::full({kTokens}, -1, at::kLong);
  EXPECT_EQ(linear_cross_entropy_sum(hidden, weight, none, weight).item<double>(), 0);
  EXPECT_EQ(linear_cross_entropy_sum(at::zeros({0, kHidden}, at::kDouble), weight, at::zeros({0}, at::kLong), weight).item<double>(), 0);
}

// Logits of ±1000: the largest is taken out before any exponential.
TEST(LinearCrossEntropy, LargeLogitsStayFinite) {
  const Tensor hidden = random_tensor({kTokens, kHidden}, 1, at::kFloat).mul(1000), weight = random_tensor({kVocabulary, kHidden}, 2, at::kFloat);
  const Result found = run(hidden, weight, {});
  EXPECT_LT(relative_error(found.loss, run_reference(hidden, weight, 0).loss), 1e-6);
  EXPECT_TRUE(found.d_hidden.isfinite().all().item<bool>());
}

TEST(LinearCrossEntropy, RefusesWrongArguments) {
  const Tensor hidden = random_tensor({kTokens, kHidden}, 1), weight = random_tensor({kVocabulary, kHidden}, 2);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, at::full({kTokens}, kVocabulary, at::kLong), weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, at::zeros({kTokens + 1}, at::kLong), weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight.to(at::kFloat), labels(), weight), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, labels(), weight, {.chunk = 0}), Error);
}

}  // namespace
}  // namespace longhaul::kernels
