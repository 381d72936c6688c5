// Steps of a decoder some of whose tensors are frozen, beside steps of the same decoder that trains as a
// whole and whose gradients of those tensors are set to zero by hand (an optimizer without weight decay
// leaves such tensors as they are).
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "layout/freezing.h"
#include "model/decoder.h"
#include "parallel/ranks.h"
#include "train/step.h"

namespace longhaul::train {
namespace {

using Patterns = std::vector<std::string>;

recipe::ModelConfig hybrid_with_experts(const Patterns& frozen) {
  recipe::ModelConfig config{
      .layers = 2, .hidden = 16, .vocabulary = 20, .heads = 2, .head_dim = 8, .softmax = {.kv_heads = 1}};
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kSoftmax};
  config.intermediate = 16;
  config.experts = 2;
  config.experts_per_token = 1;
  config.softmax.rotary_dim = 4;
  config.tie_embeddings = true;
  config.frozen = frozen;
  return config;
}

class TwelveTokens final : public Task {
 public:
  explicit TwelveTokens(const recipe::ModelConfig& config) : decoder_(config, Precision::named("fp64")) {
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

struct Trained {
  explicit Trained(const Patterns& frozen, const char* optimizer_name)
      : task(hybrid_with_experts(frozen)),
        optimizer(optim::make_optimizer({.name = optimizer_name, .weight_decay = 0}, task.parameters(),
                                        task.precision())) {}
  void step(int64_t number, std::function<void()> with_gradients) {
    const StepResult result =
        run_step(task, *optimizer, ranks, number, {.lr = 0.01, .with_gradients = std::move(with_gradients)});
    EXPECT_FALSE(result.skipped);
    norm = result.gradient_norm;
  }
  std::map<std::string, Tensor> values() const {
    std::map<std::string, Tensor> all;
    for (const auto& parameter : const_cast<TwelveTokens&>(task).parameters().all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i)
        all[parameter->parts[i].spec.tensor.name] = parameter->part_of(parameter->value.detach(), i).clone();
    }
    return all;
  }
  TwelveTokens task;
  parallel::Ranks ranks;
  std::unique_ptr<optim::Optimizer> optimizer;
  double norm = 0;
};

const std::vector<Patterns> kPatterns = {
    {"embedding.weight"}, {"layers.0.*"},         {"embedding.weight", "layers.0.*"},
    {"layers.*.mixer.*"}, {"layers.1.experts.*"}, {"*router*", "*norm*"},
    {"layers.*"}};

TEST(FrozenTensors, StayAsTheyAreAndTheOthersTrainAsIfTheirGradientWereZero) {
  for (const char* const optimizer : {"adamw", "muon"}) {
    for (const Patterns& patterns : kPatterns) {
      SCOPED_TRACE(fmt::format("{}, {}", optimizer, fmt::join(patterns, ", ")));
      Trained frozen(patterns, optimizer), whole({}, optimizer);
      const auto begin = frozen.values();
      for (int64_t step = 1; step <= 3; ++step) {
        frozen.step(step, {});
        whole.step(step, [&] {
          for (const auto& parameter : whole.task.parameters().all()) {
            if (layout::is_frozen(patterns, parameter->parts.at(0).spec.tensor.name)) parameter->grad.zero_();
          }
        });
        EXPECT_NEAR(frozen.norm, whole.norm, 1e-12 * whole.norm) << "step " << step;
      }
      const auto end = frozen.values(), expected = whole.values();
      int64_t kept = 0, moved = 0;
      for (const auto& [name, value] : end) {
        if (layout::is_frozen(patterns, name)) {
          EXPECT_TRUE(at::equal(value, begin.at(name))) << name;
          ++kept;
        } else {
          EXPECT_LT(value.sub(expected.at(name)).abs().max().item<double>(), 1e-12) << name;
          EXPECT_FALSE(at::equal(value, begin.at(name))) << name;
          ++moved;
        }
      }
      EXPECT_GT(kept, 0);
      EXPECT_GT(moved, 0);
    }
  }
}

TEST(FrozenTensors, HaveNoGradientAndNoState) {
  Trained frozen({"layers.0.*", "embedding.weight"}, "adamw");
  int64_t trained = 0;
  for (const auto& parameter : frozen.task.parameters().all()) {
    const bool is = parameter->parts.at(0).spec.frozen;
    EXPECT_EQ(parameter->grad.defined(), !is) << parameter->name;
    trained += is ? 0 : static_cast<int64_t>(parameter->value.numel());
  }
  int64_t moments = 0;
  for (const optim::StateTensor& tensor : frozen.optimizer->state()) {
    if (tensor.kind == "master") continue;
    EXPECT_FALSE(layout::is_frozen({"layers.0.*", "embedding.weight"}, tensor.name))
        << tensor.kind << " of " << tensor.name;
    moments += tensor.view.numel();
  }
  EXPECT_EQ(moments, 2 * trained) << "AdamW's two";
}

TEST(FrozenTensors, APartOfWhatOneProductComputesIsRefused) {
  try {
    const TwelveTokens task(hybrid_with_experts({"layers.1.mixer.query.weight"}));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("layers.1.mixer.key.weight"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace longhaul::train
