// One optimizer step: its numbers worked out by hand, and the numeric guard.
#include "train/step.h"

#include <gtest/gtest.h>

#include "model/decoder.h"
#include "parallel/ranks.h"
#include "support/models.h"
#include "support/tensors.h"
#include "train/by_hand.h"

namespace longhaul::train {
namespace {

recipe::ModelConfig tiny_model() {
  recipe::ModelConfig config{
      .layers = 2, .hidden = 16, .vocabulary = 20, .heads = 2, .head_dim = 8, .softmax = {.kv_heads = 1}};
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.intermediate = 16;
  config.softmax.rotary_dim = 4;
  return config;
}

class RandomTokens final : public Task {
 public:
  explicit RandomTokens(const recipe::ModelConfig& config = tiny_model(), const char* dtype = "fp32")
      : decoder_(config, Precision::named(dtype)) {
    decoder_.parameters().initialise(3);
  }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  StepWork prepare(int64_t) override { return {.micro_batches = 2, .weight = 24, .tokens = 24}; }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor&) override {
    const Tensor ids = at::arange(12, at::kLong).add(micro_batch).remainder(20);
    return decoder_.loss(context, decoder_.hidden(context, ids, layout::make_single(12)),
                         ids.add(1).remainder(20));
  }

 private:
  model::Decoder decoder_;
};

std::vector<Tensor> copy_values(Task& task) {
  std::vector<Tensor> values;
  for (const auto& parameter : task.parameters().all()) values.push_back(parameter->value.detach().clone());
  return values;
}

class StepGuard : public ::testing::Test {
 protected:
  StepResult step(int64_t number) {
    return run_step(task_, *optimizer_, ranks_, number, {.lr = 0.01, .clip_norm = 1});
  }
  Tensor tensor(const std::string& logical_name) {
    size_t part = 0;
    model::Parameter* parameter = task_.parameters().holder_of(logical_name, &part);
    return parameter->part_of(parameter->value.detach(), part);
  }

  RandomTokens task_;
  parallel::Ranks ranks_;
  std::unique_ptr<optim::Optimizer> optimizer_ =
      optim::make_optimizer({}, task_.parameters(), task_.precision());
};

TEST_F(StepGuard, AStepChangesWeightsAndLowersTheLoss) {
  const double first = step(1).loss;
  for (int64_t i = 2; i < 20; ++i) step(i);
  EXPECT_LT(step(20).loss, first);
  EXPECT_EQ(optimizer_->steps(), 20);
}

TEST_F(StepGuard, ANanIsNamedByItsFirstBlockAndChangesNothing) {
  step(1);
  for (const auto& [tensor_name, block] :
       std::vector<std::pair<std::string, std::string>>{{"layers.0.mixer.output.weight", "layers.0.mixer"},
                                                        {"layers.1.channel.down.weight", "layers.1.channel"},
                                                        {"head.weight", "loss"}}) {
    const Tensor weight = tensor(tensor_name);
    const double kept = weight.flatten()[5].item<double>();
    weight.flatten()[5].fill_(std::nan(""));
    const auto before = copy_values(task_);
    const StepResult result = step(2);
    ASSERT_TRUE(result.skipped) << tensor_name;
    EXPECT_EQ(result.skipped->layer, block);
    EXPECT_EQ(result.skipped->phase, block == "loss" ? "loss" : "forward");
    EXPECT_EQ(optimizer_->steps(), 1);
    const auto after = copy_values(task_);
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(at::allclose(before[i], after[i], 0, 0, /*equal_nan=*/true));
    for (const auto& parameter : task_.parameters().all())
      EXPECT_EQ(parameter->grad.abs().max().item<double>(), 0);
    weight.flatten()[5].fill_(kept);
  }
  EXPECT_FALSE(step(2).skipped);  // and training goes on
}

// A loss times a number so large that every gradient is a number and its square is none in fp32.
class SteepTokens final : public Task {
 public:
  model::ParameterSet& parameters() override { return tokens.parameters(); }
  const Precision& precision() const override { return tokens.precision(); }
  StepWork prepare(int64_t step) override { return tokens.prepare(step); }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override {
    return tokens.forward(context, micro_batch, entering) * steepness;
  }
  RandomTokens tokens;
  double steepness = 1;
};

TEST(StepOverflow, GradientsWhoseSquaresAreNoNumbersChangeNothing) {
  SteepTokens task;
  parallel::Ranks ranks;
  const auto optimizer = optim::make_optimizer({}, task.parameters(), task.precision());
  const auto run = [&](double clip_norm) {
    return run_step(task, *optimizer, ranks, 1, {.lr = 0.01, .clip_norm = clip_norm});
  };
  ASSERT_FALSE(run(0).skipped);
  task.steepness = 1e25;
  const auto before = copy_values(task);
  const StepResult result = run(0);
  ASSERT_TRUE(std::isfinite(result.loss) && std::isfinite(result.gradient_norm));
  ASSERT_GT(result.gradient_norm, 2e19);
  ASSERT_TRUE(result.skipped);
  EXPECT_EQ(result.skipped->phase, "gradient");
  EXPECT_EQ(optimizer->steps(), 1);
  const auto after = copy_values(task);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i]));
  for (const auto& parameter : task.parameters().all())
    EXPECT_EQ(parameter->grad.abs().max().item<double>(), 0);
  // Scaled down to a norm of 1 they are gradients like all others.
  EXPECT_FALSE(run(1).skipped);
  for (const optim::StateTensor& state : optimizer->state())
    EXPECT_TRUE(state.view.isfinite().all().item<bool>()) << state.kind << " of " << state.name;
}

// The vector task's step beside the same numbers by hand. An epsilon far above the gradients: Adam would hide
// their scale.
class StepByHand : public ::testing::Test {
 protected:
  static recipe::OptimOptions options(double clip_norm) { return {.eps = 10, .clip_norm = clip_norm}; }
  StepResult step(int64_t number, double lr, double clip_norm) {
    return run_step(task_, *optimizer_, ranks_, number, {.lr = lr, .clip_norm = clip_norm});
  }
  void expect_value(const Tensor& expected) const {
    EXPECT_LT((task_.value() - expected).abs().max().item<double>(), 1e-12) << task_.value() << expected;
  }

  testing::VectorTask task_;
  parallel::Ranks ranks_;
  std::unique_ptr<optim::Optimizer> optimizer_ =
      optim::make_optimizer(options(0), task_.parameters(), task_.precision());
  testing::Tensors by_hand_{{"w", at::arange(1, 4, at::kDouble)}};
  const Tensor mean_ = 2 * testing::VectorTask::slope() / testing::VectorTask::kWeight;
};

TEST_F(StepByHand, TheSumOfTheMicroBatchesIsDividedByTheWeight) {
  testing::AdamwByHand adamw(options(0));
  for (int64_t s = 1; s <= 3; ++s) {
    const double loss = (by_hand_["w"] * mean_).sum().item<double>();
    const double norm = adamw.step(by_hand_, {{"w", mean_}}, 0.5);
    const StepResult result = step(s, 0.5, 0);
    EXPECT_NEAR(result.loss, loss, 1e-14);
    EXPECT_NEAR(result.gradient_norm, norm, 1e-14);
    EXPECT_EQ(result.auxiliary_loss, 0);
    EXPECT_EQ(result.work.tokens, 10);
    expect_value(by_hand_["w"]);
  }
}

TEST_F(StepByHand, AGradientAboveTheLimitIsClipped) {
  testing::AdamwByHand adamw(options(0.1));
  for (int64_t s = 1; s <= 3; ++s) {
    const double norm = adamw.step(by_hand_, {{"w", mean_}}, 0.5);
    ASSERT_GT(norm, 0.3);
    EXPECT_NEAR(step(s, 0.5, 0.1).gradient_norm, norm, 1e-14);
    expect_value(by_hand_["w"]);
  }
}

TEST_F(StepByHand, AuxiliaryLossesAreTrainedAndToldApart) {
  task_.auxiliary_slope = at::tensor({-2.0, 5.0, 0.25}, at::kDouble);
  const Tensor both = mean_ + 2 * task_.auxiliary_slope / testing::VectorTask::kWeight;
  const double auxiliary =
      (task_.value() * task_.auxiliary_slope).sum().item<double>() * 2 / testing::VectorTask::kWeight;
  const double loss = (task_.value() * mean_).sum().item<double>();
  testing::AdamwByHand(options(0)).step(by_hand_, {{"w", both}}, 0.5);
  const StepResult result = step(1, 0.5, 0);
  EXPECT_NEAR(result.loss, loss, 1e-14);
  EXPECT_NEAR(result.auxiliary_loss, auxiliary, 1e-14);
  expect_value(by_hand_["w"]);
}

TEST_F(StepByHand, ANanGradientBehindAFiniteLossChangesNothing) {
  task_.loss_of = [](const Tensor& w, int64_t, int64_t m) {
    return (w * testing::VectorTask::slope()).sum() + (m == 1 ? testing::nan_gradient(w) : w.sum() * 0);
  };
  const StepResult result = step(1, 0.5, 0);
  EXPECT_NEAR(result.loss, (by_hand_["w"] * mean_).sum().item<double>(), 1e-14);
  ASSERT_TRUE(result.skipped);
  EXPECT_EQ(result.skipped->phase, "gradient");
  EXPECT_EQ(result.skipped->tensor, "layers.0.vector");
  EXPECT_EQ(result.skipped->layer, "layers.0");
  EXPECT_EQ(optimizer_->steps(), 0);
  expect_value(by_hand_["w"]);

  // Nothing of it stays: the next step is an ordinary first one.
  task_.loss_of = [](const Tensor& w, int64_t, int64_t) { return (w * testing::VectorTask::slope()).sum(); };
  testing::AdamwByHand(options(0)).step(by_hand_, {{"w", mean_}}, 0.5);
  EXPECT_FALSE(step(2, 0.5, 0).skipped);
  expect_value(by_hand_["w"]);
}

// Micro-batches whose gradients are a and b of weight 4 each: the first one's norm is |a| / 4, and the step
// is what it is without the measurement.
TEST_F(StepByHand, TheFirstMicroBatchIsMeasuredAloneAndTheStepIsTheSame) {
  const Tensor a = at::tensor({3.0, 0.0, 4.0}, at::kDouble), b = at::tensor({-1.0, 2.0, 0.5}, at::kDouble);
  task_.loss_of = [&](const Tensor& w, int64_t, int64_t m) { return (w * (m == 0 ? a : b)).sum(); };
  const StepResult result = run_step(task_, *optimizer_, ranks_, 1, {.lr = 0.5, .measure_first = true});
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->tokens, 5);
  EXPECT_NEAR(result.first->norm, 5.0 / 4, 1e-14);
  EXPECT_NEAR(result.gradient_norm, ((a + b) / 8).norm().item<double>(), 1e-14);
  testing::AdamwByHand(options(0)).step(by_hand_, {{"w", (a + b) / 8}}, 0.5);
  expect_value(by_hand_["w"]);
}

TEST_F(StepByHand, ANanInTheSecondMicroBatchAloneIsNamed) {
  task_.loss_of = [](const Tensor& w, int64_t, int64_t m) { return m == 1 ? testing::nan_loss(w) : w.sum(); };
  const StepResult result = step(1, 0.5, 0);
  ASSERT_TRUE(result.skipped);
  EXPECT_EQ(result.skipped->layer, "block of micro-batch 1");
  EXPECT_EQ(result.skipped->phase, "forward");
  expect_value(by_hand_["w"]);
}

// The gradient is finite and no block says anything: what is left is the loss.
TEST_F(StepByHand, ANanLossWithAFiniteGradientIsTheLosss) {
  class Silent final : public Task {
   public:
    explicit Silent(testing::VectorTask& inner) : inner_(inner) {}
    model::ParameterSet& parameters() override { return inner_.parameters(); }
    const Precision& precision() const override { return inner_.precision(); }
    StepWork prepare(int64_t step) override { return inner_.prepare(step); }
    Tensor forward(model::Context& context, int64_t micro_batch, const Tensor&) override {
      context.inspect = nullptr;
      return inner_.forward(context, micro_batch, {}) + std::nan("");
    }

   private:
    testing::VectorTask& inner_;
  } silent(task_);
  const StepResult result = run_step(silent, *optimizer_, ranks_, 1, {.lr = 0.5});
  ASSERT_TRUE(result.skipped);
  EXPECT_EQ(result.skipped->layer, "loss");
  EXPECT_EQ(result.skipped->phase, "loss");
}

// The balance loss of a model with experts moves its routers.
TEST(StepWithExperts, RoutersLearnFromTheirAuxiliaryLoss) {
  std::vector<Tensor> moved;
  for (const double coefficient : {0.0, 2.0}) {
    recipe::ModelConfig config = longhaul::testing::hybrid_experts_post_norm();
    config.auxiliary_loss = coefficient;
    config.z_loss = 0;
    RandomTokens task(config, "fp64");
    parallel::Ranks ranks;
    const auto optimizer =
        optim::make_optimizer({.eps = 10, .weight_decay = 0}, task.parameters(), task.precision());
    const Tensor router = task.parameters().holder_of("layers.0.router.weight")->value.detach();
    const Tensor before = router.clone();
    const StepResult result = run_step(task, *optimizer, ranks, 1, {.lr = 1});
    EXPECT_EQ(result.auxiliary_loss > 0, coefficient > 0);
    moved.push_back(router - before);
  }
  EXPECT_GT((moved[1] - moved[0]).norm().item<double>(), 0.1 * moved[0].norm().item<double>());
}

}  // namespace
}  // namespace longhaul::train
