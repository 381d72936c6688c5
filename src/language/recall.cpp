#include "language/recall.h"

#include <numeric>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "evaluate/decoder_answers.h"
#include "evaluate/recall.h"
#include "train/offload.h"
#include "train/passes.h"

namespace longhaul::language {

data::RecallShape recall_shape(const recipe::Recipe& recipe) {
  const recipe::RecallOptions& recall = recipe.recall;
  return {.kind = recall.kind,
          .sequence = recipe.train.sequence,
          .pairs = recall.pairs,
          .vocabulary = recall.vocabulary > 0 ? recall.vocabulary : recipe.model.vocabulary,
          .nearness = recall.nearness};
}

Recall::Recall(const recipe::Recipe& recipe, at::Device device, const parallel::Ranks& ranks)
    : recipe_(recipe),
      shape_(recall_shape(recipe)),
      ranks_(ranks),
      schedule_(recipe.optim, recipe.train),
      decoder_(recipe.model, Precision::named(recipe::name_of_value(recipe.train.dtype)), device,
               model::Use::kTraining, ranks.place()),
      stage_(decoder_, ranks) {
  decoder_.set_recompute(recipe.train.recompute, recipe.train.recompute_layers);
  data::recall_row(shape_, 0, 0);  // refuses now, and not when data are prepared
}

Recall::Rows Recall::rows(int64_t count, const std::function<int64_t(int64_t)>& index) const {
  Rows rows{.layout = layout::make_batch(count, shape_.sequence)};
  for (int64_t r = 0; r < count; ++r) {
    const data::RecallRow row =
        data::recall_row(shape_, static_cast<uint64_t>(recipe_.recall.seed), index(r));
    rows.inputs.insert(rows.inputs.end(), row.inputs.begin(), row.inputs.end());
    rows.labels.insert(rows.labels.end(), row.labels.begin(), row.labels.end());
  }
  rows.labelled = count * shape_.pairs;
  return rows;
}

// Of this replica's part of the step's sequences.
std::vector<Recall::Rows> Recall::micro_batches_of(int64_t step, int64_t replica) const {
  const int64_t begin = schedule_.first_sample(step),
                own = (schedule_.first_sample(step + 1) - begin) / ranks_.replicas();
  const int64_t examples = recipe_.recall.examples, each = recipe_.train.micro_batch;
  std::vector<Rows> all;
  for (int64_t first = begin + replica * own; first < begin + (replica + 1) * own; first += each) {
    all.push_back(rows(each, [&](int64_t r) { return examples > 0 ? (first + r) % examples : first + r; }));
  }
  return all;
}

train::StepWork Recall::prepare(int64_t step) {
  micro_batches_ = micro_batches_of(step, ranks_.replica());
  train::StepWork work{.micro_batches = static_cast<int64_t>(micro_batches_.size())};
  for (const Rows& part : micro_batches_) {
    work.weight += static_cast<double>(part.labelled);
    work.tokens += part.layout.tokens();
  }
  return work;
}

bool Recall::prepare_of(int64_t step, int64_t replica) {
  micro_batches_ = micro_batches_of(step, replica);
  micro_batches_.resize(1);
  return true;
}

PackedText Recall::text_of(int64_t micro_batch) const {
  const Rows& part = micro_batches_[static_cast<size_t>(micro_batch)];
  return {part.layout, part.inputs, part.labels};
}

Tensor Recall::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  return stage_.forward(context, text_of(micro_batch), entering);
}

std::map<std::string, train::Metric> Recall::step_metrics() {
  return train::offload_metrics(offload_.get(), decoder_.config().layers);
}

train::StageInput Recall::stage_input(int64_t micro_batch) const {
  return stage_.input(text_of(micro_batch));
}

std::optional<observe::Metrics> Recall::evaluate_on_ranks(const std::function<bool()>& go_on) {
  const int64_t replicas = ranks_.replicas(), replica = ranks_.replica();
  const int64_t each = recipe_.train.micro_batch;
  // whole ones: a few sequences more
  const int64_t rounds = (recipe_.recall.held_out + replicas * each - 1) / (replicas * each);
  std::vector<double> nats;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = (round * replicas + replica) * each;
    micro_batches_.assign(1, rows(each, [&](int64_t r) { return evaluate::held_out_index(first + r); }));
    train::Passes passes(*this, ranks_, {.training = false});
    passes.forward(1);
    nats.push_back(passes.loss());
    if (!go_on()) return std::nullopt;
  }
  const std::string name = "loss of an evaluation";
  const double sum = ranks_.tree() != nullptr
                         ? ranks_.tree()->sum_of_rounds(nats, name)
                         : ranks_.sum_of_run(std::accumulate(nats.begin(), nats.end(), 0.0), name);
  const auto labels = static_cast<double>(rounds * replicas * each * shape_.pairs);
  return observe::Metrics{{"loss", sum / static_cast<double>(ranks_.ops().tensor_ranks()) / labels}};
}

std::optional<observe::Metrics> Recall::evaluate(bool /*whole*/, const std::function<bool()>& go_on) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  if (ranks_.world() != nullptr || ranks_.tree() != nullptr) return evaluate_on_ranks(go_on);
  evaluate::DecoderAnswers answers(decoder_,
                                   {.tokens_per_pass = recipe_.train.micro_batch * shape_.sequence});
  const auto score = evaluate::score_recall(answers, shape_, static_cast<uint64_t>(recipe_.recall.seed),
                                            recipe_.recall.held_out, go_on);
  if (!score) return std::nullopt;
  return observe::Metrics{{"loss", score->loss}, {"accuracy", score->accuracy}};
}

nlohmann::json Recall::data_position(int64_t step) const {
  return {{"first_sample", schedule_.first_sample(step)},
          {"recall",
           {{"kind", recipe::name_of_value(shape_.kind)},
            {"sequence", shape_.sequence},
            {"pairs", shape_.pairs},
            {"vocabulary", shape_.vocabulary},
            {"nearness", shape_.nearness},
            {"examples", recipe_.recall.examples},
            {"seed", recipe_.recall.seed}}}};
}

void Recall::require_same_data(const nlohmann::json& saved, int64_t step) const {
  const nlohmann::json now = data_position(step);
  if (saved == now) return;
  throw Error({.code = ExitCode::kData,
               .what = "the run would go on with other sequences than it began with",
               .expected = saved.dump(),
               .found = now.dump(),
               .where = "[recall] and train.sequence",
               .hint = "leave them as they were, or start a new run"});
}

double Recall::epochs_after(int64_t step) const {
  if (recipe_.recall.examples == 0) return 0;
  return static_cast<double>(schedule_.first_sample(step + 1)) / static_cast<double>(recipe_.recall.examples);
}

}  // namespace longhaul::language
