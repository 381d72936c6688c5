#include "train/pretrain.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/tokenizer/continuation.h"
#include "evaluate/perplexity.h"
#include "generate/generate.h"
#include "tensor/memory_purpose.h"
#include "tensor/to_tensor.h"

namespace longhaul::train {
namespace {

data::LoaderOptions loader_options(const recipe::Recipe& recipe, const optim::TrainSchedule& schedule,
                                   const std::filesystem::path& folder) {
  data::LoaderOptions options = data::loader_options(recipe.data, recipe.train.sequence);
  options.first_position = [schedule](int64_t step) { return schedule.first_sample(step + 1); };  // the loader counts from 0
  options.index_folder = folder;
  return options;
}

}  // namespace

Pretrain::Pretrain(const recipe::Recipe& recipe, const data::RunData& data, const std::filesystem::path& index_folder, at::Device device)
    : recipe_(recipe),
      data_(data),
      schedule_(recipe.optim, recipe.train),
      loader_(data.train(), loader_options(recipe, schedule_, index_folder)),
      decoder_(recipe.model, Precision::named(recipe::names_of(recipe.train.dtype)[static_cast<size_t>(recipe.train.dtype)]), device) {
  if (data.tokenizer.vocabulary() > recipe.model.vocabulary) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has more entries than the model has rows",
                 .expected = fmt::format("at most {}", recipe.model.vocabulary),
                 .found = std::to_string(data.tokenizer.vocabulary()),
                 .where = "data.tokenizer and model.vocabulary",
                 .hint = fmt::format("model.vocabulary={}", data.tokenizer.vocabulary())});
  }
}

StepWork Pretrain::prepare(int64_t step) {
  data::Batch batch = loader_.take(step - 1);
  micro_batches_ = data::micro_batches(batch, recipe_.train.micro_batch);
  return {.micro_batches = static_cast<int64_t>(micro_batches_.size()),
          .weight = static_cast<double>(batch.target_tokens),
          .tokens = static_cast<int64_t>(batch.inputs.size()),
          .epoch = epochs_after(step)};
}

Tensor Pretrain::loss(model::Context& context, int64_t micro_batch) {
  const data::Batch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
  const Tensor hidden = decoder_.hidden(context, to_tensor(batch.inputs, decoder_.device()), batch.layout);
  return decoder_.loss(context, hidden, to_tensor(batch.labels, decoder_.device()));
}

std::optional<TaskEvaluation> Pretrain::evaluate(bool whole) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto held_out = data_.held_out();
  if (held_out.empty()) return std::nullopt;
  data::EvaluationReader reader(held_out, {.context = recipe_.train.sequence,
                                           .tokens_per_batch = recipe_.train.micro_batch * recipe_.train.sequence,
                                           .limit_tokens = whole ? 0 : recipe_.train.evaluate_tokens});
  const evaluate::EvaluationResult result = evaluate::evaluate(decoder_, reader);
  return TaskEvaluation{result.loss, result.bits_per_byte, result.perplexity};
}

std::optional<TaskSample> Pretrain::sample() {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto& options = recipe_.sample;
  if (options.tokens == 0) return std::nullopt;
  const std::vector<int32_t> prompt = data_.tokenizer.encode(options.prompt);
  data::Continuation text(data_.tokenizer, prompt);
  const auto separator = data_.tokenizer.end_of_document();
  generate::generate(decoder_, {prompt.begin(), prompt.end()},
                     {.tokens = options.tokens,
                      .min_tokens = options.tokens,  // a short document would show little of how the model writes
                      .temperature = options.temperature,
                      .top_k = options.top_k,
                      .top_p = options.top_p,
                      .seed = static_cast<uint64_t>(options.seed),
                      .vocabulary = data_.tokenizer.vocabulary(),
                      .stop_id = separator ? int64_t{*separator} : int64_t{-1}},
                     [&](int64_t id) { text.add(static_cast<int32_t>(id)); });
  return TaskSample{options.prompt, text.text() + text.rest()};
}

}  // namespace longhaul::train
