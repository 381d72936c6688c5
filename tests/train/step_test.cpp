// One optimizer step on a decoder with random tokens: the numeric guard.
#include "train/step.h"

#include <gtest/gtest.h>

#include "model/decoder.h"
#include "model/parallel_ops.h"
#include "support/tensors.h"

namespace longhaul::train {
namespace {

recipe::ModelConfig tiny_model() {
  recipe::ModelConfig config{.layers = 2, .hidden = 16, .vocabulary = 20, .heads = 2, .kv_heads = 1, .head_dim = 8};
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.intermediate = 16;
  config.rotary_dim = 4;
  return config;
}

class RandomTokens final : public Task {
 public:
  RandomTokens() : decoder_(tiny_model(), Precision::named("fp32")) { decoder_.parameters().initialise(3); }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  StepWork prepare(int64_t) override { return {.micro_batches = 2, .weight = 24, .tokens = 24}; }
  Tensor loss(model::Context& context, int64_t micro_batch) override {
    const Tensor ids = at::arange(12, at::kLong).add(micro_batch).remainder(20);
    return decoder_.loss(context, decoder_.hidden(context, ids, layout::make_single(12)), ids.add(1).remainder(20));
  }
  std::optional<TaskEvaluation> evaluate(bool) override { return std::nullopt; }
  std::optional<TaskSample> sample() override { return std::nullopt; }

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
  StepResult step(int64_t number) { return run_step(task_, *optimizer_, ops_, number, {.lr = 0.01, .clip_norm = 1}); }
  Tensor tensor(const std::string& logical_name) {
    size_t part = 0;
    model::Parameter* parameter = task_.parameters().holder_of(logical_name, &part);
    return parameter->part_of(parameter->value.detach(), part);
  }

  RandomTokens task_;
  model::LocalOps ops_;
  std::unique_ptr<optim::Optimizer> optimizer_ = optim::make_optimizer({}, task_.parameters(), task_.precision());
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
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::allclose(before[i], after[i], 0, 0, /*equal_nan=*/true));
    for (const auto& parameter : task_.parameters().all()) EXPECT_EQ(parameter->grad.abs().max().item<double>(), 0);
    weight.flatten()[5].fill_(kept);
  }
  EXPECT_FALSE(step(2).skipped);  // and training goes on
}

}  // namespace
}  // namespace longhaul::train
