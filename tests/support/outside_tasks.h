// Two tasks that are not language models and that no code in src knows: a classifier of generated pictures,
// whose inputs are floats and whose first layer is LibTorch's convolution, and a retriever with two towers,
// one of which attends to the other. They test the promises of src/train/task_entry.h.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "layout/freezing.h"
#include "layout/parameter_sets.h"
#include "model/mixers/cross_attention.h"
#include "model/watched.h"
#include "observe/trace/task_phase.h"
#include "optim/schedule.h"
#include "plan/memory/state_bytes.h"
#include "recipe/mixers/cross_attention.h"
#include "recipe/options/option.h"
#include "train/task_entry.h"

namespace longhaul::testing {

inline layout::ParameterSpec outside_spec(const std::string& name, layout::Shape shape, layout::Role role,
                                          int64_t layer) {
  layout::ParameterSpec spec;
  const auto fan_in = static_cast<double>(shape.back());
  spec.tensor = {name, std::move(shape), role};
  spec.layer = layer;
  spec.decay = role != layout::Role::kBias;
  if (spec.decay) spec.init = {.kind = layout::Init::Kind::kNormal, .std = 1 / std::sqrt(fan_in)};
  return spec;
}

// The plan of a model that is a list of tensors. It can be divided over data-parallel ranks, at every stage
// of ZeRO, and in no other way.
class OutsidePlan : public train::ModelPlan {
 public:
  OutsidePlan(std::string name, std::vector<layout::ParameterSpec> parameters, double flops,
              const recipe::Recipe& recipe)
      : name_(std::move(name)), parameters_(std::move(parameters)), flops_(flops), recipe_(recipe) {
    layout::freeze(parameters_, recipe.model.frozen);
  }

  std::string name() const override { return name_; }
  int64_t layers() const override { return 1; }
  std::vector<layout::ParameterSpec> parameters() const override { return parameters_; }
  plan::TokenFlops flops() const override { return {.matrices = flops_}; }
  parallel::Arrangement arrange(int64_t world) const override {
    const recipe::ParallelOptions& options = recipe_.parallel;
    return {.mesh = {world, {.pp = options.pp, .cp = options.cp, .tp = options.tp, .ep = options.ep}},
            .zero = options.zero};
  }
  void require_possible(const parallel::Arrangement& arrangement) const override {
    if (arrangement.mesh.size(layout::Axis::kDp) == arrangement.mesh.world()) return;
    throw Error({.code = ExitCode::kUsage,
                 .what = name_ + " can be shared by data ranks alone",
                 .expected = "tp, pp, cp and ep of 1",
                 .found = arrangement.mesh.text(),
                 .where = "[parallel]",
                 .hint = "parallel.ranks=2"});
  }
  plan::MemoryPlan memory(const plan::MemoryRequest& request, const plan::RankRequest* rank) const override {
    const plan::RankState state = plan::rank_state(parameters_, request.dtype, request.optimizer,
                                                   rank != nullptr ? rank->place : layout::MeshRank{});
    plan::MemoryMoment moment{.name = "step", .bytes = {}};
    moment.bytes[MemoryPurpose::kParameters] = state.weights;
    moment.bytes[MemoryPurpose::kGradients] = state.gradients;
    moment.bytes[MemoryPurpose::kOptimizer] = state.optimizer;
    return {.moments = {moment}};
  }

 private:
  std::string name_;
  std::vector<layout::ParameterSpec> parameters_;
  double flops_ = 0;
  const recipe::Recipe& recipe_;
};

// The common part of both tasks: parameters by name, examples counted by one schedule and assigned to
// replicas, and an evaluation on examples that are never trained on.
class OutsideTask : public train::Task {
 public:
  // `make` makes the mixer that all tensors belong to; null: each tensor is a parameter of its own.
  using MakeMixer = std::unique_ptr<model::SequenceMixer> (*)(model::ParameterSet& parameters);
  OutsideTask(const train::TaskRequest& request, std::vector<layout::ParameterSpec> specs,
              MakeMixer make = nullptr)
      : recipe_(request.recipe),
        ranks_(request.ranks),
        precision_(Precision::named(recipe::name_of_value(recipe_.train.dtype))),
        schedule_(recipe_.optim, recipe_.train),
        parameters_(frozen(std::move(specs), recipe_), precision_, request.device, model::Use::kTraining,
                    request.ranks.place()) {
    if (make != nullptr) mixer_ = make(parameters_);
    for (const layout::ParameterSpec& spec : parameters_.specs()) {
      if (make == nullptr) parameters_.add_stacked(spec.tensor.name, {spec.tensor.name});
    }
    parameters_.allocate();
  }

  model::ParameterSet& parameters() override { return parameters_; }
  const Precision& precision() const override { return precision_; }
  train::StepWork prepare(int64_t step) override {
    observe::TaskPhase phase(*ranks_.spans(), "choosing", /*allowed_s=*/60);
    const int64_t begin = schedule_.first_sample(step), own = schedule_.batch(step) / ranks_.replicas();
    first_ = begin + ranks_.replica() * own;
    phase.progress(own, own);
    return {
        .micro_batches = own / recipe_.train.micro_batch, .weight = static_cast<double>(own), .tokens = own};
  }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& /*entering*/) override {
    return judged(context, first_ + micro_batch * recipe_.train.micro_batch).first;
  }
  std::optional<observe::Metrics> evaluate(bool /*whole*/, const std::function<bool()>& go_on) override {
    const at::NoGradGuard guard;
    const observe::TaskPhase phase(*ranks_.spans(), "judging");
    double loss = 0, right = 0, count = 0;
    for (int64_t batch = 0; batch < kJudgedBatches && go_on(); ++batch) {
      model::Context context(ranks_.ops(), precision_);
      const auto [nats, hits] = judged(context, kHeldOut + batch * recipe_.train.micro_batch);
      loss += nats.item<double>();
      right += hits;
      count += static_cast<double>(recipe_.train.micro_batch);
    }
    return observe::Metrics{{"loss", loss / count}, {"accuracy", right / count}};
  }
  nlohmann::json data_position(int64_t step) const override {
    return {{"first_example", schedule_.first_sample(step)}};
  }

 protected:
  static constexpr int64_t kHeldOut = int64_t{1} << 40, kJudgedBatches = 8;

  // The sum of the losses of the micro-batch that begins with this example, and how many of its examples
  // the model gets right.
  virtual std::pair<Tensor, double> judged(model::Context& context, int64_t first) = 0;
  // Whether the model marks where its layers begin and end, so that shares of their values are gathered
  // before, and their gradients reduced after (model/watched.h).
  virtual bool marks_layers() const { return true; }
  void begin_layer() {
    model::ParameterWatch* const watch = marks_layers() ? parameters_.watched_by() : nullptr;
    if (watch != nullptr) watch->before_forward(-1);
    model::begin_layer(watch, 0, {});
  }
  Tensor end_layer(Tensor leaving) {
    model::end_layer(marks_layers() ? parameters_.watched_by() : nullptr, 0, {&leaving});
    return leaving;
  }
  Tensor weight(const std::string& name) { return parameters_.holder_of(name)->use(); }
  at::TensorOptions floats() const {
    return at::TensorOptions().device(parameters_.device()).dtype(precision_.compute);
  }

  static std::vector<layout::ParameterSpec> frozen(std::vector<layout::ParameterSpec> specs,
                                                   const recipe::Recipe& recipe) {
    layout::freeze(specs, recipe.model.frozen);
    return specs;
  }

  const recipe::Recipe& recipe_;
  const parallel::Ranks& ranks_;
  Precision precision_;
  std::unique_ptr<model::SequenceMixer> mixer_;  // null: the task has none

 private:
  optim::TrainSchedule schedule_;
  model::ParameterSet parameters_;
  int64_t first_ = 0;
};

// Pictures of 12 × 12 values with noise, in four classes: horizontal, vertical, rising and falling stripes.
class Pictures : public OutsideTask {
 public:
  static constexpr int64_t kSide = 12, kClasses = 4, kChannels = 6, kPooled = 3;
  static std::vector<layout::ParameterSpec> specs() {
    using layout::Role;
    return {outside_spec("convolution.weight", {kChannels, 9}, Role::kConvolution, 0),
            outside_spec("convolution.bias", {kChannels}, Role::kBias, 0),
            outside_spec("classes.weight", {kClasses, kChannels * kPooled * kPooled}, Role::kHead, -1),
            outside_spec("classes.bias", {kClasses}, Role::kBias, -1)};
  }
  static void declare(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
    set.add("pictures.noise", outside.number("pictures.noise", 0.3),
            "Standard deviation of the noise on a picture.")
        .at_least(0)
        .at_most(10);
    set.add("pictures.stripes", outside.whole("pictures.stripes", 4), "Pixels from stripe to stripe.")
        .unit("pixels")
        .at_least(2)
        .at_most(12);
  }
  static double flops() {
    return 6.0 * (kSide * kSide * kChannels * 9 + kClasses * kChannels * kPooled * kPooled);
  }
  struct Examples {
    Tensor pictures, classes;  // [n, 1, side, side], [n]
  };
  static Examples examples(const recipe::Recipe& recipe, int64_t first, int64_t count) {
    const RandomStream stream(static_cast<uint64_t>(recipe.train.seed), "tests/pictures");
    const auto stripes = static_cast<double>(recipe.outside.whole("pictures.stripes"));
    const Tensor pictures = at::empty({count, 1, kSide, kSide}, at::kDouble),
                 classes = at::empty({count}, at::kLong);
    auto pixel = pictures.accessor<double, 4>();
    auto label = classes.accessor<int64_t, 1>();
    for (int64_t n = 0; n < count; ++n) {
      const auto at_pixel = static_cast<uint64_t>((first + n) * (kSide * kSide + 1));
      label[n] = static_cast<int64_t>(stream.below(at_pixel, kClasses));
      for (int64_t y = 0; y < kSide; ++y) {
        for (int64_t x = 0; x < kSide; ++x) {
          const int64_t along = label[n] == 0 ? y : label[n] == 1 ? x : label[n] == 2 ? x + y : x - y + kSide;
          const double noise = recipe.outside.number("pictures.noise") *
                               stream.normal(at_pixel + 1 + static_cast<uint64_t>(y * kSide + x));
          pixel[n][0][y][x] = std::cos(2 * std::numbers::pi * static_cast<double>(along) / stripes) + noise;
        }
      }
    }
    return {pictures, classes};
  }
  explicit Pictures(const train::TaskRequest& request) : OutsideTask(request, specs()) {}

 protected:
  std::pair<Tensor, double> judged(model::Context& /*context*/, int64_t first) override {
    const auto [pictures, classes] = examples(recipe_, first, recipe_.train.micro_batch);
    begin_layer();
    const Tensor filtered =
        at::conv2d(pictures.to(floats()), weight("convolution.weight").view({kChannels, 1, 3, 3}),
                   weight("convolution.bias"), /*stride=*/1, /*padding=*/1);
    const Tensor pooled = end_layer(at::adaptive_avg_pool2d(filtered.relu(), {kPooled, kPooled}).flatten(1));
    const Tensor logits = at::linear(pooled, weight("classes.weight"), weight("classes.bias"));
    const Tensor loss = at::cross_entropy_loss(logits, classes, {}, at::Reduction::Sum);
    return {loss, logits.detach().argmax(1).eq(classes).sum().item<double>()};
  }
};

// Queries of four vectors and documents of eight: a query consists of noisy copies of some of its
// document's vectors. Every query attends to every document of the micro-batch (cross-attention), and what it
// reads must be nearest to the query where the document is its own.
class Retriever final : public OutsideTask {
 public:
  static constexpr int64_t kWidth = 10, kInner = 8, kQuery = 4, kDocument = 8;
  static recipe::ModelConfig attention() {
    recipe::ModelConfig config;
    config.layers = 1;
    config.hidden = kWidth;
    config.heads = 2;
    config.head_dim = kInner / 2;
    config.softmax.kv_heads = 2;
    return config;
  }
  static std::vector<layout::ParameterSpec> specs() {
    auto list = layout::mixer_parameters(attention(), "query_tower.",
                                         recipe::cross_attention_tensors(attention(), kWidth), /*layer=*/0);
    for (layout::ParameterSpec& spec : list)
      spec.init = {.kind = layout::Init::Kind::kNormal,
                   .std = 1 / std::sqrt(static_cast<double>(spec.tensor.global_shape.back()))};
    return list;
  }
  static double flops() { return 6.0 * kInner * (kWidth * (2 * kQuery + 2 * kDocument)); }
  explicit Retriever(const train::TaskRequest& request)
      : OutsideTask(request, specs(),
                    [](model::ParameterSet& parameters) -> std::unique_ptr<model::SequenceMixer> {
                      return std::make_unique<model::CrossAttention>(
                          attention(), model::BlockPlace{.name = "query_tower.mixer"}, parameters);
                    }) {}

 protected:
  std::pair<Tensor, double> judged(model::Context& context, int64_t first) override {
    const int64_t count = recipe_.train.micro_batch;
    const RandomStream stream(static_cast<uint64_t>(recipe_.train.seed), "tests/retriever");
    const Tensor documents = at::empty({count, kDocument, kWidth}, at::kDouble),
                 queries = at::empty({count, kQuery, kWidth}, at::kDouble);
    auto document = documents.accessor<double, 3>();
    auto query = queries.accessor<double, 3>();
    constexpr int64_t kNumbers = (kDocument + kQuery) * kWidth;
    for (int64_t n = 0; n < count; ++n) {
      auto number = static_cast<uint64_t>((first + n) * kNumbers);
      for (int64_t i = 0; i < kDocument * kWidth; ++i)
        document[n][i / kWidth][i % kWidth] = stream.normal(number++);
      for (int64_t i = 0; i < kQuery * kWidth; ++i)
        query[n][i / kWidth][i % kWidth] =
            document[n][2 * (i / kWidth)][i % kWidth] + 0.2 * stream.normal(number++);
    }
    // Each document is read by all queries, one after the other.
    const Tensor asked = queries.to(floats()).flatten(0, 1).repeat({count, 1});
    model::Memory memory =
        model::Memory::cut_from(documents.to(floats()).flatten(0, 1), layout::make_batch(count, kDocument));
    begin_layer();
    const Tensor read =
        end_layer(mixer_->cross_forward(context, asked, layout::make_batch(count, count * kQuery), memory));
    const Tensor logits = (read * asked).view({count, count, -1}).sum(2).t();  // [query, document]
    const Tensor own = at::arange(count, at::kLong);
    return {at::cross_entropy_loss(logits, own, {}, at::Reduction::Sum),
            logits.detach().argmax(1).eq(own).sum().item<double>()};
  }
};

// A policy that chooses one of four actions for a vector, a critic of another shape that predicts the reward,
// and a frozen copy of the policy near to which the policy stays: three sets of tensors in one task.
class ActorCritic final : public OutsideTask {
 public:
  static constexpr int64_t kWidth = 6, kActions = 4, kInner = 5;
  static constexpr double kNearness = 0.1;
  static std::vector<layout::ParameterSpec> specs() {
    using layout::Role;
    const std::vector<layout::ParameterSpec> policy = {
        outside_spec("action.weight", {kActions, kWidth}, Role::kHead, 0)};
    std::vector<layout::ParameterSpec> list = policy;
    layout::append(list, layout::named_set(
                             "critic", {outside_spec("inner.weight", {kInner, kWidth}, Role::kChannelUp, 0),
                                        outside_spec("value.weight", {1, kInner}, Role::kChannelDown, 0)}));
    layout::append(list, layout::named_set("reference", policy, layout::SetIs::kFrozenCopy));
    return list;
  }
  static double flops() { return 6.0 * (kWidth * (kActions + kInner) + kInner) + 2.0 * kWidth * kActions; }
  struct Examples {
    Tensor input, action, reward, best;  // [n, width], [n], [n, 1], [n]
  };
  static Examples examples(int64_t seed, int64_t first, int64_t count) {
    const RandomStream stream(static_cast<uint64_t>(seed), "tests/actor_critic");
    Examples all{at::empty({count, kWidth}, at::kDouble), at::empty({count}, at::kLong), {}, {}};
    for (int64_t n = 0; n < count; ++n) {
      const auto at_number = static_cast<uint64_t>((first + n) * (kWidth + 1));
      all.action[n] = static_cast<int64_t>(stream.below(at_number, kActions));
      for (int64_t i = 0; i < kWidth; ++i)
        all.input[n][i] = stream.normal(at_number + 1 + static_cast<uint64_t>(i));
    }
    all.best = all.input.narrow(1, 0, kActions).argmax(1);
    all.reward = all.action.eq(all.best).to(at::kDouble).unsqueeze(1);
    return all;
  }
  explicit ActorCritic(const train::TaskRequest& request) : OutsideTask(request, specs()) {}

 protected:
  std::pair<Tensor, double> judged(model::Context& /*context*/, int64_t first) override {
    const Examples seen = examples(recipe_.train.seed, first, recipe_.train.micro_batch);
    const Tensor input = seen.input.to(floats()), reward = seen.reward.to(floats());
    begin_layer();
    const Tensor logits = at::linear(input, weight("action.weight")),
                 near = at::linear(input, weight("reference.action.weight"));
    const Tensor value =
        at::linear(at::linear(input, weight("critic.inner.weight")).tanh(), weight("critic.value.weight"));
    const std::vector<Tensor> left =
        end_layer(at::cat({logits, near, value}, 1)).split_with_sizes({kActions, kActions, 1}, 1);
    const Tensor chosen = left[0].log_softmax(1).gather(1, seen.action.unsqueeze(1)),
                 error = reward - left[2];
    const Tensor loss = error.square().sum() / 2 - (error.detach() * chosen).sum() +
                        kNearness * (left[0] - left[1]).square().sum();
    return {loss, logits.detach().argmax(1).eq(seen.best).sum().item<double>()};
  }
};

template <class SomeTask>
constexpr train::TaskEntry outside_entry(std::string_view name,
                                         recipe::DeclareOutside declare_options = nullptr) {
  return {.name = name,
          .reads_text = false,
          .plan = [](const recipe::Recipe& recipe) -> std::unique_ptr<train::ModelPlan> {
            return std::make_unique<OutsidePlan>(recipe.train.task, SomeTask::specs(), SomeTask::flops(),
                                                 recipe);
          },
          .make = [](const train::TaskRequest& request) -> std::unique_ptr<train::Task> {
            return std::make_unique<SomeTask>(request);
          },
          .write_beside = nullptr,
          .next_command = [](const recipe::Recipe&, const std::string& run,
                             const std::string&) { return "checkpoint show " + run; },
          .declare_options = declare_options};
}
// A classifier that forgets to mark its layer.
class CarelessPictures final : public Pictures {
 public:
  using Pictures::Pictures;

 private:
  bool marks_layers() const override { return false; }
};

inline constexpr train::TaskEntry kOutsideTasks[] = {
    outside_entry<Pictures>("pictures", Pictures::declare), outside_entry<Retriever>("retriever"),
    outside_entry<ActorCritic>("actor_critic"),
    outside_entry<CarelessPictures>("careless", Pictures::declare)};

}  // namespace longhaul::testing
