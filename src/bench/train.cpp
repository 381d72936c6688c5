#include "bench/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/random.h"
#include "model/decoder.h"
#include "optim/optimizer.h"
#include "plan/flops.h"
#include "plan/memory.h"
#include "recipe/load.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

// One batch of random tokens, again in every step.
class RandomTokens final : public train::Task {
 public:
  RandomTokens(const recipe::ModelConfig& config, const Precision& precision, const TrainRequest& request)
      : layout_(layout::make_batch(request.batch, request.sequence)), decoder_(config, precision) {
    const RandomStream random(request.seed, "bench/train/tokens");
    std::vector<int64_t> tokens(static_cast<size_t>(layout_.tokens()));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(config.vocabulary)));
    ids_ = at::tensor(tokens, at::kLong);
    labels_ = at::tensor(layout::shifted_labels(layout_, tokens), at::kLong);
  }

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t) override { return {1, static_cast<double>(layout_.tokens() - layout_.documents()), layout_.tokens()}; }
  model::LossSum loss(model::Context& context, int64_t) override {
    return decoder_.loss(context, decoder_.hidden(context, ids_, layout_), labels_);
  }
  std::optional<train::TaskEvaluation> evaluate(bool) override { return std::nullopt; }
  std::optional<train::TaskSample> sample() override { return std::nullopt; }

 private:
  layout::SequenceLayout layout_;
  model::Decoder decoder_;
  Tensor ids_, labels_;
};

}  // namespace

Result bench_train(const TrainRequest& request, const MachineProfile& peak) {
  constexpr int64_t kUncounted = 2;
  recipe::Recipe recipe = recipe::load_defaults({"model.preset=" + request.preset}).recipe;
  const Precision precision = Precision::named(request.dtype);
  plan::require_memory(plan::training_state_bytes(recipe.model, request.dtype), available_memory_bytes());
  RandomTokens task(recipe.model, precision, request);
  task.parameters().initialise(request.seed);
  const auto optimizer = optim::make_optimizer(recipe.optim, task.parameters(), precision);
  model::LocalOps ops;

  std::vector<double> milliseconds, losses;
  Progress progress("steps", request.steps + kUncounted);
  for (int64_t step = 1; step <= request.steps + kUncounted; ++step) {
    const Stopwatch watch;
    const train::StepResult result = train::run_step(task, *optimizer, ops, step, {.lr = 1e-4, .clip_norm = 1.0, .seed = request.seed});
    if (step > kUncounted) milliseconds.push_back(watch.milliseconds());
    losses.push_back(result.loss);
    progress.advance(1);
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  const int64_t tokens = request.batch * request.sequence;
  const double median = milliseconds[milliseconds.size() / 2], rate = static_cast<double>(tokens) / (median * 1e-3);
  const double flops = plan::training_flops_per_token(recipe.model, request.sequence).causal();

  Result result{.name = "train", .shape = fmt::format("{} {} x {}", request.preset, request.batch, request.sequence), .dtype = request.dtype};
  result.passes.push_back({.time = {median, milliseconds.front(), milliseconds.back(), request.steps}, .flops = flops * static_cast<double>(tokens)});
  result.figures = {{"tokens_per_second", rate}, {"mfu", flops * rate / peak.gemm(request.dtype)}, {"loss_first", losses.front()}, {"loss_last", losses.back()}};
  const bool learns = std::isfinite(losses.back()) && losses.back() < losses.front();
  result.error = learns ? -1 : 1;
  return result;
}

}  // namespace longhaul::bench
