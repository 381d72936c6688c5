// A task with three sets of tensors (ActorCritic of support/outside_tasks.h): a policy, a critic with an
// optimizer of its own, and a frozen copy of the policy; and averages of the weights.
#include "layout/parameter_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "observe/events/event_log.h"
#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"
#include "support/outside_tasks.h"

namespace longhaul::run {
namespace {

using longhaul::testing::ActorCritic;
using longhaul::testing::kOutsideTasks;
using ::testing::HasSubstr;

constexpr double kLr = 0.02, kCriticFactor = 3, kAverage = 0.75, kClip = 0.4, kDecay = 0.1, kEps = 1e-8;
constexpr int64_t kSteps = 8, kBatch = 16;

constexpr const char* kRecipe = R"(
[train]
task = "actor_critic"
sequence = 1
batch = 16
micro_batch = 4
steps = 8
dtype = "fp64"
evaluate_every = 0
checkpoint_every = 4
threads = 1

[optim]
lr = 0.02
weight_decay = 0.1
clip_norm = 0.4
schedule = "constant"
warmup_steps = 0
average = 0.75

[[optim.group]]
set = "critic"
name = "sgd"
lr_factor = 3
weight_decay = 0

[sample]
tokens = 0

[observe]
report = false
tensorboard = false
)";

class ParameterSets : public RunFixture {
 protected:
  recipe::LoadedRecipe recipe(const Words& more = {}) const {
    return recipe::load_text(kRecipe, "sets.toml", Words{"optim.momentum=0"} + more);
  }
  void run(const std::string& name, const Words& more = {}) const {
    run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true}, kOutsideTasks);
  }
  // Every tensor of the checkpoint of a step, as bytes.
  std::map<std::string, std::vector<std::byte>> saved(const std::string& name, int64_t step) const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& each :
         storage::list_checkpoints(storage::local_file_system(), folder_ / name / "checkpoints")) {
      if (each.name.step != step) continue;
      const auto checkpoint = storage::Checkpoint::open(storage::local_file_system(), each.path);
      for (const auto& [tensor, entry] : checkpoint.manifest().tensors)
        all[tensor] = checkpoint.read_tensor(tensor);
    }
    EXPECT_FALSE(all.empty()) << name << ", step " << step;
    return all;
  }
};

Tensor numbers(const std::vector<std::byte>& bytes, at::IntArrayRef shape) {
  const Tensor all = at::empty(shape, at::kDouble);
  EXPECT_EQ(bytes.size(), all.nbytes());
  std::memcpy(all.mutable_data_ptr(), bytes.data(), std::min(bytes.size(), all.nbytes()));
  return all;
}

// The task once more with plain tensors: AdamW for the policy, plain gradient descent for the critic, one
// norm of both gradients, and averages after each step.
struct ByHand {
  ByHand() {
    model::ParameterSet drawn(ActorCritic::specs(), Precision::named("fp64"), at::kCPU);
    for (const auto& spec : drawn.specs()) drawn.add_stacked(spec.tensor.name, {spec.tensor.name});
    drawn.allocate();
    drawn.initialise(0);
    const auto take = [&](const char* name) { return drawn.holder_of(name)->value.detach().clone(); };
    policy = take("action.weight"), inner = take("critic.inner.weight"), value = take("critic.value.weight");
    reference = policy.clone();
    average = policy.clone(), average_inner = inner.clone();
    m = at::zeros_like(policy), v = at::zeros_like(policy);
  }
  void step(int64_t number) {
    const ActorCritic::Examples seen = ActorCritic::examples(0, (number - 1) * kBatch, kBatch);
    for (Tensor* each : {&policy, &inner, &value}) each->requires_grad_(true);
    const Tensor logits = seen.input.matmul(policy.t()), near = seen.input.matmul(reference.t());
    const Tensor error = seen.reward - seen.input.matmul(inner.t()).tanh().matmul(value.t());
    const Tensor chosen = logits.log_softmax(1).gather(1, seen.action.unsqueeze(1));
    const Tensor sum = (error * error / 2 - error.detach() * chosen).sum() +
                       ActorCritic::kNearness * (logits - near).square().sum();
    sum.div(kBatch).backward();
    double squares = 0;
    std::vector<Tensor> gradients;
    for (Tensor* each : {&policy, &inner, &value}) {
      gradients.push_back(each->grad().clone());
      squares += gradients.back().square().sum().item<double>();
      *each = each->detach().clone();
    }
    const double factor = std::min(1.0, kClip / (std::sqrt(squares) + 1e-6));
    const Tensor g = gradients[0] * factor;
    m = m * 0.9 + g * 0.1;
    v = v * 0.95 + g.square() * 0.05;
    const double t = static_cast<double>(number);
    policy = policy - kLr * kDecay * policy -
             kLr * (m / (1 - std::pow(0.9, t))) / ((v / (1 - std::pow(0.95, t))).sqrt() + kEps);
    inner = inner - kCriticFactor * kLr * factor * gradients[1];
    value = value - kCriticFactor * kLr * factor * gradients[2];
    average = kAverage * average + (1 - kAverage) * policy;
    average_inner = kAverage * average_inner + (1 - kAverage) * inner;
  }
  Tensor policy, inner, value, reference, average, average_inner, m, v;
};

TEST_F(ParameterSets, TrainAsPlainTensorsDo) {
  run("run");
  ByHand plain;
  const Tensor begin = plain.policy.clone();
  for (int64_t step = 1; step <= kSteps; ++step) plain.step(step);
  const auto found = saved("run", kSteps);
  const auto expect = [&](const char* name, const Tensor& expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_LT(numbers(found.at(name), expected.sizes()).sub(expected).abs().max().item<double>(), 1e-12)
        << name;
  };
  expect("action.weight", plain.policy);
  expect("critic.inner.weight", plain.inner);
  expect("critic.value.weight", plain.value);
  expect("average.action.weight", plain.average);
  expect("average.critic.inner.weight", plain.average_inner);
  EXPECT_TRUE(at::equal(numbers(found.at("reference.action.weight"), begin.sizes()), begin))
      << "a copy of how the policy began";
  EXPECT_GT(plain.policy.sub(begin).abs().max().item<double>(), 0.01);
  EXPECT_FALSE(found.contains("average.reference.action.weight"));
  EXPECT_FALSE(found.contains("optimizer.m.critic.inner.weight")) << "plain gradient descent has no state";
  EXPECT_TRUE(found.contains("optimizer.m.action.weight"));
}

TEST_F(ParameterSets, ARunInTwoPartsIsTheRunInOne) {
  run("whole");
  run("parts", {"train.steps=4"});
  run("parts");
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(saved("parts", kSteps), saved("whole", kSteps));
}

TEST_F(ParameterSets, TwoRanksAreOneProcess) {
  run("one");
  const auto one = saved("one", kSteps);
  for (const char* zero : {"parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
    run(zero, {"parallel.ranks=2", zero});
    ASSERT_EQ(losses(zero).size(), static_cast<size_t>(kSteps));
    for (size_t s = 0; s < kSteps; ++s)
      EXPECT_NEAR(losses(zero)[s], losses("one")[s], 1e-12) << zero << ", step " << s + 1;
    const auto two = saved(zero, kSteps);
    ASSERT_EQ(two.size(), one.size()) << zero;
    for (const auto& [name, bytes] : one) {
      const auto count = static_cast<int64_t>(bytes.size() / 8);
      EXPECT_LT(numbers(two.at(name), {count}).sub(numbers(bytes, {count})).abs().max().item<double>(), 1e-12)
          << zero << ", " << name;
    }
  }
}

// Weights of all sets; gradients and averages of two; AdamW's two moments of the policy; eight bytes each.
TEST_F(ParameterSets, AreGuardedByWhatEachHolds) {
  const int64_t policy = 4 * 6, critic = 5 * 6 + 5, all = 2 * policy + critic;
  run("run");
  const auto start = events<observe::RunStart>("run").at(0);
  EXPECT_EQ(start.parameters, all);
  EXPECT_EQ(start.planned_memory_bytes, 8 * (all + 2 * (policy + critic) + 2 * policy));
}

TEST_F(ParameterSets, AGroupOfAnUnknownSetIsRefused) {
  const std::string text = std::string(kRecipe) + "\n[[optim.group]]\nset = \"crtic\"\n";
  try {
    run_training(
        {.recipe = recipe::load_text(text, "sets.toml"), .run_folder = folder_ / "refused", .quiet = true},
        kOutsideTasks);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("crtic"));
    EXPECT_THAT(error.what(), HasSubstr("critic, reference"));
  }
}

}  // namespace
}  // namespace longhaul::run
