#include "bench/models/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/random.h"
#include "kernels/attention/op.h"
#include "model/decoder.h"
#include "optim/optimizer.h"
#include "plan/flops.h"
#include "plan/memory/memory_guard.h"
#include "recipe/load.h"
#include "recipe/mixers.h"
#include "run/memory.h"
#include "tensor/random_fill.h"
#include "tensor/to_tensor.h"
#include "train/step.h"

namespace longhaul::bench {
namespace {

// One batch of random tokens, again in every step.
class OneBatch final : public train::Task {
 public:
  OneBatch(const recipe::ModelConfig& config, const Precision& precision, const TrainRequest& request)
      : layout_(layout::make_batch(request.batch, request.sequence)),
        decoder_(config, precision, request.device) {
    const RandomStream random(request.seed, "bench/train/tokens");
    std::vector<int64_t> tokens(static_cast<size_t>(layout_.tokens()));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int64_t>(random.below(i, static_cast<uint64_t>(config.vocabulary)));
    ids_ = to_tensor(tokens, request.device);
    labels_ = to_tensor(layout::shifted_labels(layout_, tokens), request.device);
  }

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t) override {
    return {1, static_cast<double>(layout_.tokens() - layout_.documents()), layout_.tokens()};
  }
  Tensor forward(model::Context& context, int64_t, const Tensor&) override {
    return decoder_.loss(context, decoder_.hidden(context, ids_, layout_), labels_);
  }

 private:
  layout::SequenceLayout layout_;
  model::Decoder decoder_;
  Tensor ids_, labels_;
};

// Milliseconds that softmax attention takes of a step: one layer's operator, forward and backward, at the
// shape it has in the model.
double attention_milliseconds(const recipe::ModelConfig& config, const Precision& precision,
                              const TrainRequest& request) {
  int64_t layers = 0;
  recipe::AttentionSizes sizes;
  for (int64_t l = 0; l < config.layers; ++l) {
    const recipe::AttentionSizes of_layer = recipe::entry_of(config.mixer(l)).operators(config).attention;
    if (of_layer.heads == 0) continue;
    sizes = of_layer;
    ++layers;
  }
  if (layers == 0) return 0;
  const auto layout = layout::make_batch(request.batch, request.sequence);
  const auto random = [&](const char* name, int64_t heads, int64_t channels) {
    return normal({layout.tokens(), heads, channels}, {request.seed, name}, 1,
                  at::TensorOptions().dtype(precision.compute).device(request.device));
  };
  const std::vector<Tensor> in = {random("q", sizes.heads, sizes.head_dim).requires_grad_(true),
                                  random("k", sizes.kv_heads, sizes.head_dim).requires_grad_(true),
                                  random("v", sizes.kv_heads, sizes.value_dim).requires_grad_(true)};
  const Tensor gradient = random("gradient", sizes.heads, sizes.value_dim),
               offsets = to_tensor(layout.document_offsets);
  const double scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim));
  const auto pass = [&] {
    kernels::attention(in[0], in[1], in[2], offsets, Tensor(), {.scale = scale, .causal = sizes.causal})
        .o_thd.backward(gradient);
    synchronize(request.device);
  };
  const auto forget = [&] {
    for (const Tensor& each : in) each.mutable_grad() = Tensor();
  };
  return static_cast<double>(layers) * time_of(pass, 0.5, forget).median;
}

}  // namespace

Result bench_train(const TrainRequest& request, const MachineProfile& peak,
                   std::vector<kernels::OperatorTime>* operators) {
  constexpr int64_t kUncounted = 2;
  const DeviceScope scope(request.device);
  std::vector<std::string> entries = {"model.preset=" + request.preset,
                                      "train.dtype=" + request.dtype,
                                      fmt::format("train.batch={}", request.batch),
                                      fmt::format("train.micro_batch={}", request.batch),
                                      fmt::format("train.sequence={}", request.sequence),
                                      "train.checkpoint_every=0",
                                      "train.evaluate_every=0"};
  entries.insert(entries.end(), request.overrides.begin(), request.overrides.end());
  const recipe::Recipe recipe = recipe::load_defaults(entries).recipe;
  const Precision precision = Precision::named(request.dtype);
  plan::require_memory(run::memory_request(recipe, request.device), run::available_bytes(request.device));
  OneBatch task(recipe.model, precision, request);
  task.parameters().initialise(request.seed);
  const auto optimizer = optim::make_optimizer(recipe.optim, task.parameters(), precision);
  parallel::Ranks ranks;

  std::vector<double> milliseconds, losses;
  std::optional<kernels::OperatorClock> clock;
  Progress progress("steps", request.steps + kUncounted);
  for (int64_t step = 1; step <= request.steps + kUncounted; ++step) {
    if (step == kUncounted + 1 && operators != nullptr) clock.emplace(request.device);
    const Stopwatch watch;
    const kernels::OperatorFrame whole("between operators");
    const train::StepResult result =
        train::run_step(task, *optimizer, ranks, step, {.lr = 1e-4, .clip_norm = 1.0, .seed = request.seed});
    synchronize(request.device);  // the update is only queued
    if (step > kUncounted) milliseconds.push_back(watch.milliseconds());
    losses.push_back(result.loss);
    progress.advance(1);
  }
  if (clock) *operators = clock->rows();
  std::sort(milliseconds.begin(), milliseconds.end());
  const int64_t tokens = request.batch * request.sequence;
  const double median = milliseconds[milliseconds.size() / 2],
               rate = static_cast<double>(tokens) / (median * 1e-3);
  const plan::TokenFlops work = plan::training_flops_per_token(recipe.model, request.sequence);
  const double flops = work.causal(), attention = attention_milliseconds(recipe.model, precision, request);

  std::vector<std::string> named = {request.preset};
  named.insert(named.end(), request.overrides.begin(), request.overrides.end());
  Result result{.name = "train",
                .shape = fmt::format("{} {} x {}", fmt::join(named, " "), request.batch, request.sequence),
                .dtype = request.dtype};
  if (request.device.is_cuda()) result.implementation = name_of(request.device);
  result.passes.push_back({.time = {median, milliseconds.front(), milliseconds.back(), request.steps},
                           .flops = flops * static_cast<double>(tokens)});
  result.figures = {{"tokens_per_second", rate},
                    {"mfu", flops * rate / peak.gemm(request.dtype)},
                    {"loss_first", losses.front()},
                    {"loss_last", losses.back()}};
  if (attention > 0) {
    result.figures.emplace_back("attention_share_measured", attention / median);
    result.figures.emplace_back("attention_share_predicted", work.attention_causal / flops);
  }
  const bool learns = std::isfinite(losses.back()) && losses.back() < losses.front();
  result.error = learns ? -1 : 1;
  return result;
}

}  // namespace longhaul::bench
