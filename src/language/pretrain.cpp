#include "language/pretrain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/memory/memory_purpose.h"
#include "base/text/text.h"
#include "data/tokenizer/continuation.h"
#include "data/tokenizer/wide_ids.h"
#include "data/tokens/row_check.h"
#include "generate/generate.h"
#include "recipe/mixers.h"
#include "tensor/to_tensor.h"
#include "train/offload.h"
#include "train/passes.h"

namespace longhaul::language {
namespace {

using layout::Axis;

constexpr const char* kFirstToken = "first_token";  // in the data position: tokens of the steps before it

// The schedule outlives the loader, which asks it again where the batch has grown.
std::function<data::LoaderOptions(int64_t sequence)> loader_options(
    const recipe::DataOptions& texts, const optim::TrainSchedule& schedule,
    const std::filesystem::path& folder, const parallel::Ranks& ranks,
    const std::shared_ptr<data::BatchShare>& share) {
  return [=, &schedule, &ranks](int64_t sequence) {
    data::LoaderOptions options = data::loader_options(texts, sequence);
    // the loader counts from 0
    options.first_position = [&schedule](int64_t step) { return schedule.first_sample(step + 1); };
    options.index_folder = folder;
    options.replica = ranks.replica();
    options.replicas = ranks.replicas();
    options.share = share;
    return options;
  };
}

std::vector<data::SequenceStretch> stretches_of(const optim::TrainSchedule& schedule) {
  std::vector<data::SequenceStretch> stretches;
  for (const optim::StageState& stage : schedule.stages()) {
    if (stretches.empty() || stretches.back().sequence != stage.sequence)
      stretches.push_back({stage.first_step - 1, stage.first_token, stage.sequence});
  }
  return stretches;
}

// The first tokens of a held-out document, at most half of it, in whole characters: of the first document
// that is long enough, else of the longest. Empty where nothing is held out.
std::vector<int32_t> held_out_beginning(const data::RunData& data, int64_t most_tokens) {
  const data::TokenDataset* from = nullptr;
  int64_t document = 0, length = 0;
  for (const data::TokenDataset* dataset : data.held_out()) {
    for (int64_t d = 0; d < dataset->documents() && length < 2 * most_tokens; ++d) {
      if (dataset->length(d) > length) from = dataset, document = d, length = dataset->length(d);
    }
  }
  // A template of several tokens has all but its first one in the documents: what begins a text is put in
  // front again.
  const auto front = std::max<int64_t>(1, static_cast<int64_t>(data.tokenizer.beginning().size())) - 1;
  std::vector<int64_t> ids(
      static_cast<size_t>(std::clamp<int64_t>((length - front + 1) / 2, 0, most_tokens)));
  if (from != nullptr) from->read(document, std::min(front, length), ids);
  data::Continuation shown(data.tokenizer, {});
  size_t whole = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    shown.add(static_cast<int32_t>(ids[i]));
    if (shown.rest().empty()) whole = i + 1;
  }
  return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(whole)};
}

// Tokens; what begins a text stands before them.
int64_t longest_prompt(const recipe::ModelConfig& model, const data::Tokenizer& tokenizer) {
  const int64_t limit = recipe::sequence_limit(model).tokens;
  return limit < std::numeric_limits<int64_t>::max()
             ? limit - static_cast<int64_t>(tokenizer.beginning().size())
             : limit;
}

// The next batches of an evaluation, one for each replica; those who get none go along with the first, of
// which nothing counts.
std::vector<data::Batch> round_of(data::EvaluationReader& reader, int64_t replicas) {
  std::vector<data::Batch> round;
  while (static_cast<int64_t>(round.size()) < replicas) {
    std::optional<data::Batch> batch = reader.next();
    if (!batch) break;
    round.push_back(std::move(*batch));
  }
  while (!round.empty() && static_cast<int64_t>(round.size()) < replicas) {
    data::Batch& idle = round.emplace_back(round.front());
    std::ranges::fill(idle.labels, layout::kIgnoreLabel);
    idle.target_tokens = idle.target_bytes = 0;
  }
  return round;
}

}  // namespace

void require_grids(const recipe::ModelConfig& model, const std::vector<const data::TokenDataset*>& datasets) {
  if (recipe::grid_of(model).empty()) return;
  const int64_t tokens = model.lightnet.tokens_of_grid();
  for (const data::TokenDataset* dataset : datasets) {
    for (int64_t d = 0; d < dataset->documents(); ++d) {
      if (dataset->length(d) == tokens) continue;
      throw Error({.code = ExitCode::kData,
                   .what = fmt::format("document {} is no grid of model.lightnet.grid = [{}]", d + 1,
                                       fmt::join(model.lightnet.grid, ", ")),
                   .expected = fmt::format("{} tokens", tokens),
                   .found = std::to_string(dataset->length(d)),
                   .where = dataset->folder().string(),
                   .hint = "documents of one size, and a tokenizer that leaves it so (data.tokenizer=bytes), "
                           "or model.lightnet.grid=[]"});
    }
  }
}

// Masked training needs a row for every entry and for the mask; other training for every token of the texts.
void Pretrain::require_rows() const {
  const int64_t rows = recipe_.model.vocabulary, entries = data_.tokenizer.vocabulary();
  const int64_t wanted = masked() ? data::rows_with_mask(data_.tokenizer) : entries;
  const std::string hint = fmt::format(
      "model.vocabulary={}; of a model that begins with trained weights (--from) the new rows get the mean "
      "of the others",
      wanted);
  const std::string where = "data.tokenizer and model.vocabulary";
  if (wanted > rows && masked()) {
    throw Error({.code = ExitCode::kData,
                 .what = wanted > entries
                             ? "the tokenizer's entries and a mask token are more than the model has rows"
                             : "the tokenizer has more entries than the model has rows",
                 .expected = fmt::format("at most {}", rows),
                 .found = std::to_string(wanted),
                 .where = where,
                 .hint = hint});
  }
  if (wanted <= rows) return;
  for (const int32_t id : data_.tokenizer.encode(recipe_.sample.prompt)) {
    if (id < rows) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "the prompt of the sample holds a token for which the model has no row",
                 .expected = fmt::format("ids from 0 to {}", rows - 1),
                 .found = std::to_string(id),
                 .where = "sample.prompt",
                 .hint = "sample.prompt="});
  }
  const int64_t without = data::require_rows(data_.tokenizer, rows, where, hint);
  log_info("the model has no row for {} of the tokenizer: the data are read to see that they hold none",
           counted(without, "token"));
  for (const auto& datasets : {data_.train(), data_.held_out()}) {
    for (const data::TokenDataset* dataset : datasets) data::require_ids_below(*dataset, rows, hint);
  }
}

Pretrain::Pretrain(const recipe::Recipe& recipe, const data::RunData& data,
                   const std::filesystem::path& index_folder, at::Device device, const parallel::Ranks& ranks,
                   std::shared_ptr<data::BatchShare> share)
    : recipe_(recipe),
      data_(data),
      ranks_(ranks),
      schedule_(recipe.optim, recipe.train),
      loader_(data.train(), loader_options(recipe.data, schedule_, index_folder, ranks, share),
              stretches_of(schedule_)),
      decoder_(recipe.model, Precision::named(recipe::name_of_value(recipe.train.dtype)), device,
               model::Use::kTraining, ranks.place()),
      stage_(decoder_, ranks) {
  decoder_.set_recompute(recipe.train.recompute, recipe.train.recompute_layers);
  require_rows();
  require_grids(recipe.model, data.train());
  require_grids(recipe.model, data.held_out());
  if (masked()) refuse_weights(data);
  if (recipe.train.distill.wanted())
    teacher_ = std::make_unique<Teacher>(recipe, data.tokenizer.sha256(), device);
  if (masked()) return;  // nothing is sampled
  // Now, and not when all is trained.
  const auto prompt = static_cast<int64_t>(data.tokenizer.encode(recipe.sample.prompt).size());
  const int64_t longest = longest_prompt(recipe.model, data.tokenizer);
  if (recipe.sample.tokens > 0 && prompt > longest) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the prompt of the sample is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens", longest),
                 .found = fmt::format("{} tokens", prompt),
                 .where = fmt::format("sample.prompt and {}", recipe::sequence_limit(recipe.model).option),
                 .hint = "sample.prompt="});
  }
}

// A label of masked tokens is a token's own, and not the one after it.
void Pretrain::refuse_weights(const data::RunData& data) {
  for (const data::TokenDataset* dataset : data.train()) {
    if (!dataset->weighted()) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "data that says which tokens count in the loss cannot be learnt as masked tokens",
                 .expected = "train.objective = next",
                 .found = "train.objective = masked",
                 .where = dataset->folder().string(),
                 .hint = "train.objective=next, or data.loss_on=all, which lets every token count"});
  }
}

data::Batch Pretrain::with_objective(data::Batch batch) const {
  if (!masked()) return batch;
  return data::with_masks(std::move(batch), data::training_masks(data_.tokenizer, recipe_.train.masked_share,
                                                                 recipe_.train.seed));
}

train::StepWork Pretrain::prepare(int64_t step) {
  if (step > 1 && schedule_.sequence(step) != schedule_.sequence(step - 1) && ranks_.rank() == 0)
    log_info("from step {} on sequences have {} tokens", step, schedule_.sequence(step));
  step_ = step;
  const data::Batch batch = with_objective(loader_.take(step - 1));
  micro_batches_ = data::micro_batches(batch, recipe_.train.micro_batch);
  taught_.assign(micro_batches_.size(), {});
  return {.micro_batches = static_cast<int64_t>(micro_batches_.size()),
          .weight = batch.target_weight(),
          .tokens = static_cast<int64_t>(batch.inputs.size()),
          .auxiliary_by_weight = !batch.weights.empty()};
}

bool Pretrain::prepare_of(int64_t step, int64_t replica) {
  const data::Batch batch = with_objective(loader_.batch_at(step - 1, replica, ranks_.replicas()));
  micro_batches_ = data::micro_batches(batch, recipe_.train.micro_batch);
  micro_batches_.resize(1);
  taught_.assign(1, {});
  return true;
}

PackedText Pretrain::text_of(int64_t micro_batch) const {
  const data::Batch& batch = micro_batches_[static_cast<size_t>(micro_batch)];
  return {batch.layout, batch.inputs, batch.labels, batch.weights.empty() ? nullptr : &batch.weights};
}

Tensor Pretrain::beside_teacher(model::Context& context, int64_t micro_batch) {
  const PackedText text = text_of(micro_batch);
  const at::Device device = decoder_.device();
  const Tensor weights = text.weights == nullptr ? Tensor() : at::tensor(*text.weights).to(device);
  const Teacher::Sums sums =
      teacher_->loss(context, decoder_, to_tensor(text.inputs, device), to_tensor(text.labels, device),
                     weights, layout::SequenceView(text.layout, ranks_.share()));
  Teacher::Sums& told = taught_[static_cast<size_t>(micro_batch)];
  told = sums;
  told.loss = Tensor();  // its graph ends with the pass
  return sums.loss;
}

std::map<std::string, train::Metric> Pretrain::step_metrics() {
  std::map<std::string, train::Metric> metrics =
      train::offload_metrics(offload_.get(), decoder_.config().layers);
  for (size_t m = 0; m < taught_.size() && teacher_ != nullptr; ++m) {
    const auto add = [&](const char* name, const Tensor& sum) {
      if (!sum.defined()) return;
      metrics[name].sum += sum.item<double>();
      metrics[name].weight += micro_batches_[m].target_weight();
    };
    add("distill/cross_entropy", taught_[m].cross_entropy);
    add("distill/divergence", taught_[m].divergence);
    add("distill/distance", taught_[m].distance);
  }
  return metrics;
}

Tensor Pretrain::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  if (teacher_ != nullptr && context.training) return beside_teacher(context, micro_batch);
  return stage_.forward(context, text_of(micro_batch), entering);
}

train::StageInput Pretrain::stage_input(int64_t micro_batch) const {
  return stage_.input(text_of(micro_batch));
}

std::optional<evaluate::EvaluationResult> Pretrain::evaluate_on_ranks(data::EvaluationReader& reader,
                                                                      const std::function<bool()>& go_on) {
  int64_t tokens = 0, bytes = 0;
  std::vector<double> nats;
  for (auto round = round_of(reader, ranks_.replicas()); !round.empty();
       round = round_of(reader, ranks_.replicas())) {
    for (const data::Batch& batch : round) {
      tokens += batch.target_tokens;
      bytes += batch.target_bytes;
    }
    micro_batches_.assign(1, std::move(round[static_cast<size_t>(ranks_.replica())]));
    train::Passes passes(*this, ranks_, {.training = false});
    passes.forward(1);
    nats.push_back(passes.loss());
    if (!go_on()) return std::nullopt;
  }
  const std::string name = "loss of an evaluation";
  const double sum = ranks_.tree() != nullptr
                         ? ranks_.tree()->sum_of_rounds(nats, name)
                         : ranks_.sum_of_run(std::accumulate(nats.begin(), nats.end(), 0.0), name);
  // Every tensor rank has the whole loss of its tokens.
  return evaluate::result_of(sum / static_cast<double>(ranks_.ops().tensor_ranks()), tokens, bytes,
                             !nats.empty());
}

std::optional<observe::Metrics> Pretrain::evaluate(bool whole, const std::function<bool()>& go_on) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto held_out = data_.held_out();
  if (held_out.empty()) return std::nullopt;
  const int64_t sequence = schedule_.sequence(std::max<int64_t>(1, step_));
  data::EvaluationOptions options{.context = sequence,
                                  .tokens_per_batch = recipe_.train.micro_batch * sequence,
                                  .limit_tokens = whole ? 0 : recipe_.train.evaluate_tokens};
  if (masked()) options.masking = data::evaluation_masks(data_.tokenizer, recipe_.train.masked_share);
  data::EvaluationReader reader(held_out, options);
  const auto result = ranks_.world() != nullptr || ranks_.tree() != nullptr
                          ? evaluate_on_ranks(reader, go_on)
                          : evaluate::evaluate(decoder_, reader, [&](int64_t) { return go_on(); });
  if (!result) return std::nullopt;
  if (masked())
    return observe::Metrics{{"loss", result->loss}, {"bits_per_masked_token", result->bits_per_token()}};
  return observe::Metrics{
      {"loss", result->loss}, {"bits_per_byte", result->bits_per_byte}, {"perplexity", result->perplexity}};
}

nlohmann::json Pretrain::data_position(int64_t step) const {
  nlohmann::json position = data::to_json(loader_.position_before(step - 1));
  // Where all sequences have one length, the number of samples says it.
  if (schedule_.changes_sequence()) position[kFirstToken] = schedule_.first_token(step);
  return position;
}

void Pretrain::require_same_data(const nlohmann::json& saved, int64_t step) const {
  const data::DataPosition before = data::data_position_from_json(saved);
  data::require_same_data(before, loader_.position_before(step - 1));
  const int64_t tokens = saved.value(kFirstToken, before.first_sample * before.sequence),
                now = schedule_.first_token(step);
  if (tokens == now) return;
  throw Error({.code = ExitCode::kData,
               .what = "sequences had other lengths before the checkpoint was written",
               .expected = fmt::format("{} tokens before step {}", tokens, step),
               .found = std::to_string(now),
               .where = "optim.stages",
               .hint = "set optim.stages back up to that step, or start anew with --fresh"});
}

bool Pretrain::holds_whole_model() {
  // all ranks together
  if (parallel::Sharding* sharding = ranks_.sharding_of(decoder_.parameters())) sharding->gather_values();
  // Replicas and context ranks hold the whole model, and one of them is enough.
  const bool whole = ranks_.place().zero < 3 &&
                     std::ranges::all_of(std::array{Axis::kPp, Axis::kTp, Axis::kEp, Axis::kEtp},
                                         [&](Axis a) { return ranks_.place().mesh.size(a) == 1; });
  if (ranks_.rank() > 0) return false;
  if (!whole)
    log_info("no sample: no rank holds the whole model ({}); `sample` makes one from the checkpoint",
             ranks_.place().mesh.text());
  return whole;
}

generate::GenerateSettings Pretrain::sample_settings() const {
  const auto& options = recipe_.sample;
  return {.tokens = options.tokens,
          .temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .seed = static_cast<uint64_t>(options.seed),
          .vocabulary = data_.tokenizer.vocabulary(),
          .never = data::wide_ids(data_.tokenizer.without_token()),
          .stop_ids = data::wide_ids(data_.tokenizer.stop_ids())};
}

std::optional<train::TaskSample> Pretrain::sample() {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const auto& options = recipe_.sample;
  if (options.tokens == 0) return std::nullopt;
  if (masked()) {
    if (ranks_.rank() == 0)
      log_info(
          "no sample: a model that was trained on masked tokens (train.objective = masked) does not write "
          "on");
    return std::nullopt;
  }
  if (!holds_whole_model()) return std::nullopt;
  const bool given = !options.prompt.empty();
  const int64_t fits = std::max<int64_t>(
      1, std::min<int64_t>(32, longest_prompt(recipe_.model, data_.tokenizer) - options.tokens));
  const std::vector<int32_t> prompt =
      given ? data_.tokenizer.encode(options.prompt) : held_out_beginning(data_, fits);
  data::Continuation text(data_.tokenizer, prompt);
  std::vector<int64_t> ids = given ? data::wide_ids(data_.tokenizer.encode_prompt(options.prompt))
                                   : data::wide_ids(data_.tokenizer.beginning());
  if (!given) ids.insert(ids.end(), prompt.begin(), prompt.end());
  generate::GenerateSettings settings = sample_settings();
  settings.min_tokens = options.tokens;  // a short document would show little of how the model writes
  const auto generation =
      generate::generate(decoder_, ids, settings, [&](int64_t id) { text.add(static_cast<int32_t>(id)); });
  if (generation.finish == generate::Finish::kPositions) {
    const recipe::SequenceLimit limit = recipe::sequence_limit(recipe_.model);
    log_warning("the sample ends after {} of {} tokens: the model's positions are used up ({} = {})",
                generation.ids.size(), options.tokens, limit.option, limit.tokens);
  }
  return train::TaskSample{given ? options.prompt : data_.tokenizer.decode(prompt),
                           text.text() + text.rest()};
}

}  // namespace longhaul::language
