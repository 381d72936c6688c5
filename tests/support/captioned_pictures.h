// A task in which a decoder that src knows reads something that it does not: pictures (outside_tasks.h), cut
// into patches that a projector makes into rows before the text. The text asks for the word of the picture's
// class. Decoder and projector have one list of tensors (model::Beside), so the ranks may share the model in
// every way that a decoder can be shared.
#pragma once

#include "language/text_stage.h"
#include "support/outside_tasks.h"
#include "train/passes.h"

namespace longhaul::testing {

class CaptionedPictures final : public train::Task {
 public:
  static constexpr int64_t kPatch = 4, kPatches = 9, kTokens = kPatches + 1;

  static std::vector<layout::ParameterSpec> projector(const recipe::Recipe& recipe) {
    using layout::Role;
    std::vector<layout::ParameterSpec> list = {
        outside_spec("projector.weight", {recipe.model.hidden, kPatch * kPatch}, Role::kChannelUp, -1),
        outside_spec("projector.bias", {recipe.model.hidden}, Role::kBias, -1)};
    layout::freeze(list, recipe.model.frozen);
    return list;
  }
  static std::vector<layout::ParameterSpec> specs(const recipe::Recipe& recipe) {
    std::vector<layout::ParameterSpec> list = projector(recipe);
    layout::append(list, layout::parameters(recipe.model));
    return list;
  }

  explicit CaptionedPictures(const train::TaskRequest& request)
      : recipe_(request.recipe),
        ranks_(request.ranks),
        schedule_(recipe_.optim, recipe_.train),
        decoder_(recipe_.model, Precision::named(recipe::name_of_value(recipe_.train.dtype)), request.device,
                 model::Use::kTraining, ranks_.place(),
                 {.tensors = projector(recipe_),
                  .make =
                      [](model::ParameterSet& set) {
                        for (const char* name : {"projector.weight", "projector.bias"})
                          set.add_stacked(name, {name});
                      }}),
        stage_(decoder_, ranks_) {
    decoder_.set_recompute(recipe_.train.recompute, recipe_.train.recompute_layers);
  }

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  train::StepWork prepare(int64_t step) override {
    const int64_t own = schedule_.batch(step) / ranks_.replicas();
    first_ = schedule_.first_sample(step) + ranks_.replica() * own;
    return {
        .micro_batches = own / recipe_.train.micro_batch, .weight = static_cast<double>(own), .tokens = own};
  }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override {
    const Text text(recipe_, first_ + micro_batch * recipe_.train.micro_batch);
    model::EmbeddedRows rows{.tokens = text.patches, .rows_nd = {}};
    if (decoder_.first(context)) rows.rows_nd = projected(text);
    const language::PackedText packed{text.layout, text.inputs, text.labels, nullptr, &rows};
    if (context.training) return stage_.forward(context, packed, entering);
    return stage_.forward(context, packed, entering, {}, [&](const auto& tokens, const auto&) {
      const Tensor logs = tokens.log_probability_t;  // 0 where nothing is predicted
      right_ += logs.lt(0).logical_and(logs.gt(std::log(0.5))).sum().template item<double>();
      return logs.sum().neg();
    });
  }
  train::StageInput stage_input(int64_t micro_batch) const override {
    const Text text(recipe_, first_ + micro_batch * recipe_.train.micro_batch);
    return stage_.input({text.layout, text.inputs, text.labels});
  }
  // Without pipeline stages; a picture counts as right where its word is likelier than all others together.
  std::optional<observe::Metrics> evaluate(bool /*whole*/, const std::function<bool()>& go_on) override {
    if (!go_on() || ranks_.place().mesh.size(layout::Axis::kPp) > 1) return std::nullopt;
    const int64_t before = std::exchange(first_, int64_t{1} << 40);
    right_ = 0;
    train::Passes passes(*this, ranks_, {.training = false});
    passes.forward(kJudged);
    first_ = before;
    const Tensor sums = at::tensor({passes.loss(), right_}, at::kDouble);
    ranks_.reduce_over({layout::Axis::kCp}, sums, comm::Reduction::kSum);
    const auto pictures = static_cast<double>(kJudged * recipe_.train.micro_batch);
    return observe::Metrics{{"loss", sums[0].item<double>() / pictures},
                            {"accuracy", sums[1].item<double>() / pictures}};
  }
  nlohmann::json data_position(int64_t step) const override {
    return {{"first_example", schedule_.first_sample(step)}};
  }

 private:
  static constexpr int64_t kJudged = 8;  // micro-batches

  // A micro-batch: of each picture nine patches, and the token that asks (id 0); word 1 + class answers it.
  struct Text {
    Text(const recipe::Recipe& recipe, int64_t first)
        : count(recipe.train.micro_batch),
          examples(Pictures::examples(recipe, first, count)),
          layout(layout::make_batch(count, kTokens)),
          inputs(static_cast<size_t>(count * kTokens), -1),
          labels(static_cast<size_t>(count * kTokens), layout::kIgnoreLabel) {
      for (int64_t n = 0; n < count; ++n) {
        for (int64_t p = 0; p < kPatches; ++p) patches.push_back(n * kTokens + p);
        const auto asks = static_cast<size_t>(n * kTokens + kPatches);
        inputs[asks] = 0;
        labels[asks] = 1 + examples.classes[n].item<int64_t>();
      }
    }
    int64_t count;
    Pictures::Examples examples;
    layout::SequenceLayout layout;
    std::vector<int64_t> inputs, labels, patches;
  };
  Tensor projected(const Text& text) {
    decoder_.use_outside_layers();
    const auto weight = [&](const char* name) { return parameters().holder_of(name)->use(); };
    const Tensor patches = text.examples.pictures.unfold(2, kPatch, kPatch)
                               .unfold(3, kPatch, kPatch)
                               .reshape({text.count * kPatches, kPatch * kPatch});
    return at::linear(patches.to(precision().compute), weight("projector.weight"), weight("projector.bias"));
  }

  const recipe::Recipe& recipe_;
  const parallel::Ranks& ranks_;
  optim::TrainSchedule schedule_;
  model::Decoder decoder_;
  language::TextStage stage_;
  int64_t first_ = 0;
  double right_ = 0;
};

// The plan of a decoder with tensors beside it, shared by ranks as the decoder is.
class CaptionPlan final : public OutsidePlan {
 public:
  explicit CaptionPlan(const recipe::Recipe& recipe)
      : OutsidePlan("captions", CaptionedPictures::specs(recipe),
                    plan::training_flops_per_token(recipe.model, CaptionedPictures::kTokens).full(), recipe),
        of_(recipe) {}
  int64_t layers() const override { return of_.model.layers; }
  parallel::Arrangement arrange(int64_t world) const override {
    return parallel::arrangement_of(of_.model, of_.parallel, world);
  }
  void require_possible(const parallel::Arrangement& arrangement) const override {
    parallel::require_possible(of_.model, arrangement);
  }

 private:
  const recipe::Recipe& of_;
};

inline constexpr train::TaskEntry kCaptionTasks[] = {
    {.name = "captions",
     .reads_text = false,
     .plan = [](const recipe::Recipe& recipe) -> std::unique_ptr<train::ModelPlan> {
       return std::make_unique<CaptionPlan>(recipe);
     },
     .make = [](const train::TaskRequest& request) -> std::unique_ptr<train::Task> {
       return std::make_unique<CaptionedPictures>(request);
     },
     .write_beside = nullptr,
     .next_command = [](const recipe::Recipe&, const std::string& run,
                        const std::string&) { return "checkpoint show " + run; },
     .declare_options = Pictures::declare}};

}  // namespace longhaul::testing
