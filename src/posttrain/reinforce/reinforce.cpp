#include "posttrain/reinforce/reinforce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/memory/memory_purpose.h"
#include "model/as_written.h"
#include "posttrain/reinforce/rollout_file.h"
#include "train/offload.h"
#include "train/passes.h"

namespace longhaul::posttrain {
namespace {

// Whoever asks often for what does not come is told less and less often.
bool is_told(int64_t count) { return std::has_single_bit(static_cast<uint64_t>(count)); }

double critic_lr(const ReinforceOptions& options, const recipe::OptimOptions& optim,
                 const optim::TrainSchedule& schedule, int64_t step) {
  const double lr = schedule.learning_rate(step);
  return options.critic_lr > 0 ? lr * options.critic_lr / optim.lr : lr;
}

double mean_or_zero(double sum, double count) { return count > 0 ? sum / count : 0; }

}  // namespace

Reinforce::Reinforce(const train::TaskRequest& request)
    : recipe_(request.recipe),
      options_(reinforce_options(recipe_)),
      tokenizer_(request.data.tokenizer),
      run_(request.run_folder),
      ranks_(request.ranks),
      decoder_(recipe_.model, Precision::named(recipe::name_of_value(recipe_.train.dtype)), request.device,
               model::Use::kTraining, ranks_.place()),
      stage_(decoder_, ranks_),
      prompts_(options_, tokenizer_, recipe_.train.sequence + 1 - options_.tokens),
      judge_(options_),
      rollouts_(options_, decoder_, tokenizer_, prompts_, judge_, ranks_),
      state_(recipe_, options_, prompts_, ranks_.rank() == 0),
      schedule_(recipe_.optim, recipe_.train) {
  decoder_.set_recompute(recipe_.train.recompute, recipe_.train.recompute_layers);
  if (options_.replays_routes) routers_ = model::blocks_with_routers(recipe_.model);
  if (options_.kl > 0)
    reference_ = std::make_unique<ReferenceModel>(recipe_, decoder_.precision(), request.device, ranks_);
  if (options_.has_critic)
    critic_ = std::make_unique<Critic>(recipe_, options_, decoder_.precision(), request.device, ranks_);
  if (options_.exact && !request.device.is_cpu()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the trainer cannot have the engine's bits",
                 .expected = "train.device = cpu",
                 .found = request.device.str(),
                 .where = "reinforce.exact",
                 .hint = "train.device=cpu, or reinforce.exact=false"});
  }
  if (tokenizer_.stop_ids().empty())
    log_warning(
        "the tokenizer has no token that ends a text: every answer goes on to reinforce.tokens = {} "
        "(data.stop_tokens)",
        options_.tokens);
  if (tokenizer_.vocabulary() <= recipe_.model.vocabulary) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "the tokenizer has more entries than the model has rows",
       .expected = fmt::format("at most {}", recipe_.model.vocabulary),
       .found = std::to_string(tokenizer_.vocabulary()),
       .where = "data.tokenizer and model.vocabulary",
       .hint = fmt::format(
           "model.vocabulary={}; a model that begins with trained weights (--from) brings its own tokenizer",
           tokenizer_.vocabulary())});
}

// The groups of one update: as many prompts as every other update has, those that are missing from a short
// batch missing in the last ones.
void Reinforce::take_update(int64_t update) {
  const int64_t each = options_.prompts / options_.updates, all = std::ssize(state_.batch.groups);
  groups_.clear();
  for (int64_t g = update * each; g < std::min(all, (update + 1) * each); ++g)
    groups_.push_back(&state_.batch.groups[static_cast<size_t>(g)]);
  micro_batches_ = micro_batches_of(groups_, {.sequence = recipe_.train.sequence,
                                              .rows = recipe_.train.micro_batch,
                                              .replicas = ranks_.replicas(),
                                              .replica = ranks_.replica()});
}

train::StepWork Reinforce::prepare(int64_t step) {
  step_ = step;
  if (reference_) reference_->take_once(decoder_.parameters());
  if (critic_) critic_->take_once(decoder_.parameters());
  began_batch_ = state_.used >= options_.updates;
  if (began_batch_) begin_batch(step);
  take_update(state_.used++);
  if (critic_) {
    observe::TaskPhase phase(*ranks_.spans(), "critic");
    critic_metrics_ =
        critic_->train(micro_batches_, step, critic_lr(options_, recipe_.optim, schedule_, step));
  }
  train::StepWork work{.micro_batches = std::ssize(micro_batches_),
                       .weight = weight_of(micro_batches_, options_),
                       .auxiliary_by_weight = true};
  for (const MicroBatch& micro_batch : micro_batches_) work.tokens += micro_batch.layout.tokens();
  return work;
}

// The batches are made with the weights that the run begins with. A kill in between begins them anew.
void Reinforce::warm_critic(int64_t step) {
  observe::TaskPhase phase(*ranks_.spans(), "critic_warmup");
  const double lr = options_.critic_lr > 0 ? options_.critic_lr : recipe_.optim.lr;
  for (; !critic_->is_warm(); critic_->add_warm_batch()) {
    state_.batch = generated(step);
    value_batch(step);
    for (int64_t update = 0; update < options_.updates; ++update) {
      take_update(update);
      critic_->train(micro_batches_, step, lr);
    }
  }
}

void Reinforce::value_batch(int64_t step) {
  for (int64_t update = 0; update < options_.updates; ++update) {
    take_update(update);
    critic_->evaluate(micro_batches_, step);
    record_in(&Answer::values);
  }
  estimate_advantages(state_.batch.groups, options_);
}

RolloutBatch Reinforce::generated(int64_t step) {
  return rollouts_.next(state_.next_prompt, options_.adaptive ? &state_.levels : nullptr,
                        options_.window_at(step));
}

void Reinforce::begin_batch(int64_t step) {
  if (critic_) warm_critic(step);
  state_.batch = state_.ahead ? std::move(*state_.ahead) : generated(step);
  state_.ahead.reset();
  if (options_.ahead) state_.ahead = generated(step + options_.updates);
  state_.used = 0;
  tell_of_batch();
  score(step);
  if (critic_) value_batch(step);
  state_.keep_batches();
}

void Reinforce::tell_of_batch() {
  const RolloutTally& tally = state_.batch.tally;
  const bool is_short = std::ssize(state_.batch.groups) < options_.prompts,
             is_equal = tally.accepted == 0 && !critic_;
  state_.short_batches += is_short ? 1 : 0;
  state_.equal_batches += is_equal ? 1 : 0;
  if (ranks_.rank() > 0) return;
  if (is_equal && is_told(state_.equal_batches))
    log_warning(
        "step {}: all {} groups have answers of equal rewards (mean {:.3g}), and nothing can be learnt from "
        "them ({} rollout batches so far). Other "
        "prompts or levels, a larger reinforce.group, or a model that was taught the form of answers first",
        step_, tally.groups, tally.reward / static_cast<double>(tally.answers), state_.equal_batches);
  if (is_short && !is_equal && is_told(state_.short_batches))
    log_warning(
        "step {}: {} rounds of generation gave {} groups that teach something, of the {} that the step is to "
        "have ({} such batches so far): it is "
        "trained on these",
        step_, tally.rounds, state_.batch.groups.size(), options_.prompts, state_.short_batches);
}

// The log-probabilities that all updates of a batch compare with.
void Reinforce::score(int64_t step) {
  const bool scores_old = options_.updates > 1 && !options_.ahead;
  for (Group& group : state_.batch.groups) {
    for (Answer& answer : group.answers) {
      if (options_.ahead) answer.old = answer.generated;
    }
  }
  if (!scores_old && !reference_) return;
  observe::TaskPhase phase(*ranks_.spans(), "old_policy");
  for (int64_t update = 0; update < options_.updates; ++update) {
    take_update(update);
    if (scores_old) {
      recording_ = &stage_;
      score_update(step, &Answer::old);
    }
    if (reference_) {
      recording_ = &reference_->stage();
      score_update(step, &Answer::reference);
    }
    phase.progress(update + 1, options_.updates);
  }
  recording_ = nullptr;
}

void Reinforce::score_update(int64_t step, std::vector<double> Answer::*into) {
  train::Passes passes(*this, ranks_, {.step = step, .seed = static_cast<uint64_t>(recipe_.train.seed)});
  passes.forward(std::ssize(micro_batches_));
  record_in(into);
}

// What the last pass has left for every answer of the groups.
void Reinforce::record_in(std::vector<double> Answer::*into) {
  const auto all = gathered(groups_);
  size_t next = 0;
  for (Group* const group : groups_) {
    for (Answer& answer : group->answers) answer.*into = all[next++];
  }
}

// The log-probabilities that the last pass recorded for every answer of the groups, on all ranks. They come
// from the model's last stage, whose tensor ranks all have the same.
std::vector<std::vector<double>> Reinforce::gathered(const std::vector<Group*>& groups) const {
  int64_t answers = 0;
  for (const Group* const group : groups) answers += std::ssize(group->answers);
  const Tensor all = at::zeros({answers, options_.tokens}, at::kDouble);
  for (const MicroBatch& micro_batch : micro_batches_) {
    const layout::MeshRank& place = ranks_.place();
    const bool tells = place.coordinate(layout::Axis::kTp) == 0 &&
                       place.coordinate(layout::Axis::kPp) + 1 == place.mesh.size(layout::Axis::kPp);
    for (size_t i = 0; tells && i < micro_batch.answers.size(); ++i)
      std::ranges::copy(micro_batch.l[i],
                        all.mutable_data_ptr<double>() + micro_batch.numbers[i] * options_.tokens);
  }
  sum_over_ranks(ranks_, all, decoder_.device());
  std::vector<std::vector<double>> result;
  const double* row = all.const_data_ptr<double>();
  for (const Group* const group : groups) {
    for (const Answer& answer : group->answers) {
      result.emplace_back(row, row + answer.ids.size());
      row += options_.tokens;
    }
  }
  return result;
}

Tensor Reinforce::forward(model::Context& context, int64_t micro_batch, const Tensor& entering) {
  MicroBatch& own = micro_batches_[static_cast<size_t>(micro_batch)];
  const language::TextStage& stage = recording_ != nullptr ? *recording_ : stage_;
  // The reference is another model, which has written nothing.
  const bool wrote = &stage == &stage_ && !own.answers.empty();
  if (wrote && !routers_.empty()) context.replayed_routes = own.routes(routers_, decoder_.device());
  if (wrote && options_.exact)
    context.written = std::make_shared<const model::Written>(model::Written{.at_once = own.prompts});
  const kernels::LogProbabilityOptions options{.temperature = options_.temperature,
                                               .entropy = recording_ == nullptr,
                                               .as_drawn = wrote && options_.exact};
  return stage.forward(context, own.text(), entering, options,
                       [&](const kernels::TokenLogProbabilities& tokens, const layout::SequenceView&) {
                         if (recording_ == nullptr) return loss_of(own, tokens, options_);
                         record(own, tokens);
                         return at::zeros({}, tokens.log_probability_t.options());
                       });
}

train::StageInput Reinforce::stage_input(int64_t micro_batch) const {
  return stage_.input(micro_batches_[static_cast<size_t>(micro_batch)].text());
}

std::map<std::string, train::Metric> Reinforce::step_metrics() {
  TokenSums all;
  for (const MicroBatch& micro_batch : micro_batches_) {
    const TokenSums& sums = micro_batch.sums;
    all.tokens += sums.tokens;
    all.entropy += sums.entropy;
    all.clipped_high += sums.clipped_high;
    all.clipped_low += sums.clipped_low;
    all.kl += sums.kl;
    all.gap += sums.gap;
    all.gap_kl += sums.gap_kl;
  }
  std::map<std::string, train::Metric> metrics = {{"policy/entropy", {all.entropy, all.tokens}},
                                                  {"policy/clipped_high", {all.clipped_high, all.tokens}},
                                                  {"policy/clipped_low", {all.clipped_low, all.tokens}},
                                                  {"policy/generated_gap", {all.gap, all.tokens}},
                                                  {"policy/generated_kl", {all.gap_kl, all.tokens}}};
  if (reference_) metrics["policy/reference_kl"] = {all.kl, all.tokens};
  metrics.merge(critic_metrics_);
  metrics.merge(train::offload_metrics(offload_.get(), decoder_.config().layers));
  add_batch_metrics(metrics);
  if (options_.rollouts_every > 0 && step_ % options_.rollouts_every == 0) write_step();
  return metrics;
}

// All ranks have the whole batch: what each tells is the mean of all.
void Reinforce::add_batch_metrics(std::map<std::string, train::Metric>& metrics) const {
  const RolloutTally& tally = state_.batch.tally;
  const double told = began_batch_ ? 1 : 0;
  const auto mean = [&](const std::string& name, double sum, double count) {
    metrics[name] = {told * mean_or_zero(sum, count), count > 0 ? told : 0};
  };
  const auto answers = static_cast<double>(tally.answers);
  mean("rollout/reward", tally.reward, answers);
  mean("rollout/right", static_cast<double>(tally.right), answers);
  mean("rollout/formatted", static_cast<double>(tally.formatted), answers);
  mean("rollout/truncated", static_cast<double>(tally.truncated), answers);
  mean("rollout/tokens", static_cast<double>(tally.tokens), answers);
  mean("rollout/accepted", static_cast<double>(tally.accepted), static_cast<double>(tally.groups));
  mean("rollout/rounds", static_cast<double>(tally.rounds), 1);
  if (options_.windows.size() > 1) mean("rollout/window", static_cast<double>(tally.window), 1);
  for (const std::string& task : prompts_.tasks()) {
    const auto found = tally.of_task.find(task);
    const RolloutTally::OfTask of_task =
        found != tally.of_task.end() ? found->second : RolloutTally::OfTask{};
    mean("reward/" + task, of_task.reward, static_cast<double>(of_task.answers));
  }
  // Lengths of the answers that the step is trained on, by whether they are better than their group's others.
  double better = 0, worse = 0, better_tokens = 0, worse_tokens = 0;
  for (const Group* const group : groups_) {
    for (const Answer& answer : group->answers) {
      (answer.advantage > 0 ? better : worse) += 1;
      (answer.advantage > 0 ? better_tokens : worse_tokens) += static_cast<double>(answer.ids.size());
    }
  }
  metrics["policy/tokens_better"] = {mean_or_zero(better_tokens, better), better > 0 ? 1.0 : 0.0};
  metrics["policy/tokens_worse"] = {mean_or_zero(worse_tokens, worse), worse > 0 ? 1.0 : 0.0};
}

void Reinforce::write_step() {
  const auto now = gathered(groups_);
  if (ranks_.rank() > 0 || run_.empty()) return;
  const std::vector<std::string> parts = judge_.parts();
  std::vector<RolloutLine> lines;
  for (const Group* const group : groups_) {
    for (const Answer& answer : group->answers) {
      const std::vector<double>& l = now[lines.size()];
      RolloutLine line{.step = step_,
                       .prompt_number = group->prompt.number,
                       .level = group->prompt.level,
                       .task = group->prompt.task,
                       .prompt = group->prompt.text,
                       .right_answer = group->prompt.answer,
                       .answer = rollouts_.text_of(answer),
                       .ended = answer.ended,
                       .formatted = answer.reward.formatted,
                       .reward = answer.reward.sum,
                       .shaped = answer.shaped,
                       .advantage = answer.advantage,
                       .parts = {},
                       .ids = answer.ids,
                       .log_probabilities = l,
                       .old = answer.old.empty() ? l : answer.old,
                       .generated = answer.generated,
                       .ratios = {}};
      for (size_t i = 0; i < parts.size(); ++i) line.parts.emplace_back(parts[i], answer.reward.parts[i]);
      for (size_t t = 0; t < l.size(); ++t) line.ratios.push_back(std::exp(l[t] - line.old[t]));
      lines.push_back(std::move(line));
    }
  }
  write_rollouts(run_, step_, lines);
}

std::optional<observe::Metrics> Reinforce::evaluate(bool /*whole*/, const std::function<bool()>& go_on) {
  if (!go_on()) return std::nullopt;
  double answers = 0, reward = 0, right = 0, tokens = 0;
  for (const Group& group : rollouts_.held_out(options_.evaluate_prompts)) {
    for (const Answer& answer : group.answers) {
      answers += 1;
      reward += answer.reward.sum;
      right += answer.right() ? 1 : 0;
      tokens += static_cast<double>(answer.ids.size());
    }
  }
  if (answers == 0) return std::nullopt;
  return observe::Metrics{
      {"reward", reward / answers}, {"right", right / answers}, {"answer_tokens", tokens / answers}};
}

std::vector<checkpoint::StateProvider*> Reinforce::state() {
  std::vector<checkpoint::StateProvider*> all = {&state_};
  if (reference_) all.push_back(reference_.get());
  if (critic_) all.push_back(critic_.get());
  return all;
}

nlohmann::json Reinforce::data_position(int64_t /*step*/) const {
  return {{"reinforce", prompts_.position(state_.next_prompt)}};
}

void Reinforce::require_same_data(const nlohmann::json& saved, int64_t /*step*/) const {
  nlohmann::json before = saved.value("reinforce", nlohmann::json::object()), now = prompts_.position(0);
  before.erase("next_prompt");
  now.erase("next_prompt");
  if (before == now) return;
  throw Error({.code = ExitCode::kData,
               .what = "the run would go on with other prompts than it began with",
               .expected = before.dump(),
               .found = now.dump(),
               .where = "[reinforce]",
               .hint = "leave them as they were, or start a new run"});
}

}  // namespace longhaul::posttrain
