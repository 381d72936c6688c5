#include "posttrain/preference/answer_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "base/random.h"
#include "observe/trace/task_phase.h"
#include "train/offload.h"
#include "train/passes.h"

namespace longhaul::posttrain {

using layout::Axis;

AnswerTask::AnswerTask(const recipe::Recipe& recipe, SplitSamples samples, at::Device device,
                       const parallel::Ranks& ranks)
    : recipe_(recipe),
      ranks_(ranks),
      samples_(std::move(samples)),
      fingerprint_(samples_.train.fingerprint() + samples_.held_out.fingerprint()),
      schedule_(recipe.optim, recipe.train),
      decoder_(recipe.model, Precision::named(recipe::name_of_value(recipe.train.dtype)), device,
               model::Use::kTraining, ranks.place()),
      stage_(decoder_, ranks) {
  decoder_.set_recompute(recipe.train.recompute, recipe.train.recompute_layers);
  require_same_on_all_ranks();
}

// Ranks may read the files on machines of their own.
void AnswerTask::require_same_on_all_ranks() const {
  const auto own = static_cast<int64_t>(xxh3(fingerprint_) >> 2);
  const int64_t most = ranks_.most(own), least = -ranks_.most(-own);
  if (most == own && least == own) return;
  throw Error({.code = ExitCode::kData,
               .what = "not all ranks have the same answers to learn from",
               .expected = "files of the same content on every machine",
               .found = fmt::format("others than on rank {}", ranks_.rank()),
               .where = "preference.data and preference.held_out"});
}

int64_t AnswerTask::index_at(int64_t position) const {
  const auto size = static_cast<int64_t>(samples_.train.samples.size());
  const RandomStream stream(static_cast<uint64_t>(recipe_.data.seed),
                            fmt::format("posttrain/answers/epoch-{}", position / size));
  return static_cast<int64_t>(
      permutation_at(stream, static_cast<uint64_t>(size), static_cast<uint64_t>(position % size)));
}

std::vector<int64_t> AnswerTask::samples_of_replica(int64_t step, int64_t replica) const {
  const int64_t begin = schedule_.first_sample(step),
                own = (schedule_.first_sample(step + 1) - begin) / ranks_.replicas();
  std::vector<int64_t> indexes;
  for (int64_t p = begin + replica * own; p < begin + (replica + 1) * own; ++p)
    indexes.push_back(index_at(p));
  return indexes;
}

std::vector<int64_t> AnswerTask::samples_of_worker(int64_t step) const {
  const int64_t own = ranks_.place().mesh.size(Axis::kDp);
  std::vector<int64_t> all;
  for (int64_t replica = ranks_.worker() * own; replica < (ranks_.worker() + 1) * own; ++replica) {
    const std::vector<int64_t> some = samples_of_replica(step, replica);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<PackedAnswers> AnswerTask::micro_batches_of(const std::vector<int64_t>& samples) const {
  const auto each = recipe_.train.micro_batch;
  std::vector<PackedAnswers> all;
  for (auto first = samples.begin(); first < samples.end(); first += each) {
    all.push_back(packed(Side::kTrain, {first, std::min(first + each, samples.end())}));
  }
  return all;
}

train::StepWork AnswerTask::prepare(int64_t step) {
  before_step(step);
  const std::vector<int64_t> samples = samples_of_replica(step, ranks_.replica());
  micro_batches_ = micro_batches_of(samples);
  scores_.assign(micro_batches_.size(), Tensor());
  train::StepWork work{.micro_batches = static_cast<int64_t>(micro_batches_.size()),
                       .weight = weight_of(Side::kTrain, samples),
                       .auxiliary_by_weight = true};
  for (const PackedAnswers& part : micro_batches_) work.tokens += part.layout.tokens();
  return work;
}

bool AnswerTask::prepare_of(int64_t step, int64_t replica) {
  micro_batches_ = micro_batches_of(samples_of_replica(step, replica));
  micro_batches_.resize(1);
  scores_.assign(1, Tensor());
  return true;
}

Tensor AnswerTask::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  const PackedAnswers& part = micro_batches_[static_cast<size_t>(micro_batch)];
  const auto count = static_cast<int64_t>(part.samples.size());
  return stage_.forward(
      context, part.text(), entering, token_options(),
      [&](const kernels::TokenLogProbabilities& tokens, const layout::SequenceView& view) {
        const Tensor scores_nd = sums_of_documents(token_scores(tokens), view, ranks_).view({count, -1});
        scores_[static_cast<size_t>(micro_batch)] = scores_nd.detach();
        if (scoring_) return at::zeros({}, scores_nd.options());
        return counted_once(summed_loss(Side::kTrain, part.samples, scores_nd), view);
      });
}

train::StageInput AnswerTask::stage_input(int64_t micro_batch) const {
  return stage_.input(micro_batches_[static_cast<size_t>(micro_batch)].text());
}

std::map<std::string, train::Metric> AnswerTask::step_metrics() {
  Metrics sums;
  for (const std::string& name : names_of_metrics()) sums[name] = {};
  for (size_t m = 0; m < scores_.size(); ++m) {
    if (!scores_[m].defined()) continue;  // the last stage is another rank's
    for (const auto& [name, metric] : metrics_of(Side::kTrain, micro_batches_[m].samples, scores_[m].cpu())) {
      sums[name].sum += metric.sum;
      sums[name].weight += metric.weight;
    }
  }
  sums.merge(train::offload_metrics(offload_.get(), decoder_.config().layers));
  return sums;
}

Tensor AnswerTask::scores_of(int64_t count, int64_t columns, const Pack& pack, const std::string& phase_name,
                             const std::function<bool()>& go_on) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  observe::TaskPhase phase(*ranks_.spans(), phase_name);
  const layout::MeshRank& place = ranks_.place();
  const int64_t each = recipe_.train.micro_batch, batches = (count + each - 1) / each;
  const int64_t replicas = place.mesh.size(Axis::kDp), own = place.coordinate(Axis::kDp);
  const bool tells = place.coordinate(Axis::kTp) == 0 && place.coordinate(Axis::kCp) == 0;
  const Tensor table = at::zeros({count, columns}, at::kDouble);
  scoring_ = true;
  for (int64_t round = 0; round < batches; round += replicas) {
    // A replica without a batch of its own goes along with the first one, of which nothing counts: experts
    // may span replicas.
    const bool counts = round + own < batches;
    const int64_t first = counts ? (round + own) * each : 0, size = std::min(each, count - first);
    micro_batches_.assign(1, pack(first, size));
    scores_.assign(1, Tensor());
    train::Passes(*this, ranks_, {.training = false}).forward(1);
    if (counts && tells && scores_[0].defined())
      table.narrow(0, first, size).copy_(scores_[0].view({size, columns}));
    phase.progress(std::min(round + replicas, batches), batches);
    if (go_on && !go_on()) {
      scoring_ = false;
      return {};
    }
  }
  scoring_ = false;
  ranks_.sum(table, phase_name);
  return table;
}

Tensor AnswerTask::scores_of(Side side, int64_t count, const std::string& phase,
                             const std::function<bool()>& go_on) {
  const auto pack = [&](int64_t first, int64_t size) {
    std::vector<int64_t> samples(static_cast<size_t>(size));
    std::iota(samples.begin(), samples.end(), first);
    return packed(side, samples);
  };
  return scores_of(count, documents_of_sample(), pack, phase, go_on);
}

// The first held-out samples, as many as have train.evaluate_tokens.
int64_t AnswerTask::count_to_judge(bool whole) const {
  const auto& held_out = of(Side::kHeldOut);
  int64_t count = 0, tokens = 0;
  while (count < static_cast<int64_t>(held_out.size()) && (whole || tokens < recipe_.train.evaluate_tokens)) {
    tokens += held_out[static_cast<size_t>(count++)].inputs();
  }
  return count;
}

std::optional<observe::Metrics> AnswerTask::evaluate(bool whole, const std::function<bool()>& go_on) {
  const int64_t count = count_to_judge(whole);
  if (count == 0) return std::nullopt;
  const Tensor scores_nd = scores_of(Side::kHeldOut, count, "judging", go_on);
  if (!scores_nd.defined()) return std::nullopt;
  before_judging(scores_nd);
  std::vector<int64_t> samples(static_cast<size_t>(count));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  observe::Metrics metrics;
  metrics["loss"] =
      summed_loss(Side::kHeldOut, samples, scores_nd).item<double>() / weight_of(Side::kHeldOut, samples);
  for (const auto& [name, metric] : metrics_of(Side::kHeldOut, samples, scores_nd)) {
    if (metric.weight != 0) metrics[name] = metric.sum / metric.weight;
  }
  return metrics;
}

nlohmann::json AnswerTask::data_position(int64_t step) const {
  return {{"first_sample", schedule_.first_sample(step)},
          {"tokenizer_sha256", samples_.tokenizer_sha256},
          {"answers",
           {{"samples", samples_.train.samples.size()},
            {"sha256", sha256_hex(fingerprint_)},
            {"seed", recipe_.data.seed}}}};
}

void AnswerTask::require_same_data(const nlohmann::json& saved, int64_t step) const {
  const nlohmann::json now = data_position(step);
  if (saved == now) return;
  throw Error({.code = ExitCode::kData,
               .what = "the run would go on with other answers than it began with",
               .expected = saved.dump(),
               .found = now.dump(),
               .where = "preference.data, preference.held_out, the chat template and train.sequence",
               .hint = "leave them as they were, or start a new run"});
}

double AnswerTask::epochs_after(int64_t step) const {
  return static_cast<double>(schedule_.first_sample(step + 1)) /
         static_cast<double>(samples_.train.samples.size());
}

}  // namespace longhaul::posttrain
