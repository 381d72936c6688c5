#include "train/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/memory_purpose.h"
#include "data/tokenizer/continuation.h"
#include "evaluate/perplexity.h"
#include "generate/generate.h"
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

// The first tokens of a held-out document, at most half of it, in whole characters: of the first document that is long enough, else of the
// longest. Empty where nothing is held out.
std::vector<int32_t> held_out_beginning(const data::RunData& data, int64_t most_tokens) {
  const data::TokenDataset* from = nullptr;
  int64_t document = 0, length = 0;
  for (const data::TokenDataset* dataset : data.held_out()) {
    for (int64_t d = 0; d < dataset->documents() && length < 2 * most_tokens; ++d) {
      if (dataset->length(d) > length) from = dataset, document = d, length = dataset->length(d);
    }
  }
  std::vector<int64_t> ids(static_cast<size_t>(std::clamp<int64_t>((length + 1) / 2, 0, most_tokens)));
  if (from != nullptr) from->read(document, 0, ids);
  data::Continuation shown(data.tokenizer, {});
  size_t whole = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    shown.add(static_cast<int32_t>(ids[i]));
    if (shown.rest().empty()) whole = i + 1;
  }
  return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(whole)};
}

// Tokens; the separator stands before them.
int64_t longest_prompt(const recipe::ModelConfig& model) {
  return model.position == recipe::Position::kLearned ? model.max_positions - 1 : std::numeric_limits<int64_t>::max();
}

}  // namespace

Pretrain::Pretrain(const recipe::Recipe& recipe, const data::RunData& data, const std::filesystem::path& index_folder, at::Device device)
    : recipe_(recipe),
      data_(data),
      schedule_(recipe.optim, recipe.train),
      loader_(data.train(), loader_options(recipe, schedule_, index_folder)),
      decoder_(recipe.model, Precision::named(recipe::name_of_value(recipe.train.dtype)), device) {
  if (data.tokenizer.vocabulary() > recipe.model.vocabulary) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has more entries than the model has rows",
                 .expected = fmt::format("at most {}", recipe.model.vocabulary),
                 .found = std::to_string(data.tokenizer.vocabulary()),
                 .where = "data.tokenizer and model.vocabulary",
                 .hint = fmt::format("model.vocabulary={}", data.tokenizer.vocabulary())});
  }
  // Now, and not when all is trained.
  const auto prompt = static_cast<int64_t>(data.tokenizer.encode(recipe.sample.prompt).size());
  if (recipe.sample.tokens > 0 && prompt > longest_prompt(recipe.model)) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the prompt of the sample is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens", longest_prompt(recipe.model)),
                 .found = fmt::format("{} tokens", prompt),
                 .where = "sample.prompt and model.max_positions",
                 .hint = "sample.prompt="});
  }
}

StepWork Pretrain::prepare(int64_t step) {
  data::Batch batch = loader_.take(step - 1);
  micro_batches_ = data::micro_batches(batch, recipe_.train.micro_batch);
  return {.micro_batches = static_cast<int64_t>(micro_batches_.size()),
          .weight = static_cast<double>(batch.target_tokens),
          .tokens = static_cast<int64_t>(batch.inputs.size())};
}

Tensor Pretrain::forward(model::Context& context, int64_t micro_batch, const Tensor&) {
  const data::Batch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
  const layout::SequenceView view(batch.layout);
  const Tensor hidden = decoder_.hidden(context, to_tensor(batch.inputs, decoder_.device()), view);
  return decoder_.loss(context, hidden, to_tensor(batch.labels, decoder_.device()), view);
}

std::optional<observe::Metrics> Pretrain::evaluate(bool whole, const std::function<bool()>& go_on) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto held_out = data_.held_out();
  if (held_out.empty()) return std::nullopt;
  data::EvaluationReader reader(held_out, {.context = recipe_.train.sequence,
                                           .tokens_per_batch = recipe_.train.micro_batch * recipe_.train.sequence,
                                           .limit_tokens = whole ? 0 : recipe_.train.evaluate_tokens});
  const auto result = evaluate::evaluate(decoder_, reader, [&](int64_t) { return go_on(); });
  if (!result) return std::nullopt;
  return observe::Metrics{{"loss", result->loss}, {"bits_per_byte", result->bits_per_byte}, {"perplexity", result->perplexity}};
}

nlohmann::json Pretrain::data_position(int64_t step) const { return data::to_json(loader_.position_before(step - 1)); }

void Pretrain::require_same_data(const nlohmann::json& saved, int64_t step) const {
  data::require_same_data(data::data_position_from_json(saved), loader_.position_before(step - 1));
}

std::optional<TaskSample> Pretrain::sample() {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto& options = recipe_.sample;
  if (options.tokens == 0) return std::nullopt;
  const bool given = !options.prompt.empty();
  const int64_t fits = std::max<int64_t>(1, std::min<int64_t>(32, longest_prompt(recipe_.model) - options.tokens));
  const std::vector<int32_t> prompt = given ? data_.tokenizer.encode(options.prompt) : held_out_beginning(data_, fits);
  data::Continuation text(data_.tokenizer, prompt);
  const auto separator = data_.tokenizer.end_of_document();
  const auto generation = generate::generate(decoder_, {prompt.begin(), prompt.end()},
                                             {.tokens = options.tokens,
                                              .min_tokens = options.tokens,  // a short document would show little of how the model writes
                                              .temperature = options.temperature,
                                              .top_k = options.top_k,
                                              .top_p = options.top_p,
                                              .seed = static_cast<uint64_t>(options.seed),
                                              .vocabulary = data_.tokenizer.vocabulary(),
                                              .stop_id = separator ? int64_t{*separator} : int64_t{-1}},
                                             [&](int64_t id) { text.add(static_cast<int32_t>(id)); });
  if (generation.finish == generate::Finish::kPositions) {
    log_warning("the sample ends after {} of {} tokens: the model's positions are used up (model.max_positions = {})",
                generation.ids.size(), options.tokens, recipe_.model.max_positions);
  }
  return TaskSample{given ? options.prompt : data_.tokenizer.decode(prompt), text.text() + text.rest()};
}

}  // namespace longhaul::train
