#include "train/trainer.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/machine/machine.h"
#include "base/process/fault_point.h"
#include "base/threads/parallel.h"
#include "checkpoint/saved_recipe.h"
#include "checkpoint/starting_point.h"
#include "recipe/options/difference.h"
#include "tensor/cpu_allocator.h"
#include "tensor/device.h"
#include "tensor/queue_marks.h"
#include "train/saving/newest_checkpoint.h"

namespace longhaul::train {
namespace {

bool is_due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

checkpoint::SaverOptions saver_options(const TrainerOptions& options, int64_t generation) {
  const auto& train = options.recipe.recipe.train;
  return {.folder = options.run_folder / "checkpoints",
          .generation = generation,
          .retention = {.keep_last = train.checkpoint_keep > 0 ? train.checkpoint_keep : INT64_MAX,
                        .keep_every = train.checkpoint_keep_every},
          .self_test = train.checkpoint_self_test};
}

// Adds the seconds that this rank was in the phases that its task names (observe/trace/task_phase.h).
void take_phases(observe::SpanRecorder& spans, observe::Metrics& metrics) {
  for (const auto& [name, seconds] : spans.take_task_seconds()) metrics[name + "_seconds"] = seconds;
}

std::vector<checkpoint::StateProvider*> with_state_of(Task& task, SpikeLadder& ladder,
                                                      std::vector<checkpoint::StateProvider*> all) {
  if (ladder.watches()) all.push_back(&ladder);
  for (checkpoint::StateProvider* provider : task.state()) all.push_back(provider);
  return all;
}

}  // namespace

Trainer::Trainer(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks,
                 observe::EventWriter& events, storage::FileSystem& files, RunControl& control,
                 TrainerOptions options)
    : task_(task),
      optimizer_(optimizer),
      events_(events),
      files_(files),
      control_(control),
      options_(std::move(options)),
      schedule_(options_.recipe.recipe.optim, options_.recipe.recipe.train),
      ranks_(ranks),
      together_(ranks.everyone("start")),
      ladder_(options_.recipe.recipe.guard),
      ramp_(options_.recipe.recipe.optim),
      corruption_(options_.recipe.recipe, task, optimizer, ranks, events),
      optimizer_state_(optimizer),
      outer_state_(options_.outer != nullptr
                       ? std::make_unique<checkpoint::OuterState>(optimizer, *options_.outer, ranks)
                       : nullptr),
      average_(task.parameters(), optimizer, options_.recipe.recipe.optim.average),
      state_(with_state_of(
          task, ladder_,
          {outer_state_ ? static_cast<checkpoint::StateProvider*>(outer_state_.get()) : &optimizer_state_,
           &counters_, &ramp_, &average_})),
      memory_(files, ranks, together_, options_.tier, options_.recipe.recipe.train, events.run(),
              events.generation(), task.parameters().device().is_cpu() ? threads() : 0),
      saver_(
          files,
          [this] {
            checkpoint::SaverOptions saver = saver_options(options_, events_.generation());
            saver.on_result = [this](const checkpoint::SaveResult& result) { on_save_ended(result); };
            return saver;
          }(),
          ranks.everyone("checkpoint")) {
  if (const at::Device device = task.parameters().device(); !device.is_cpu())
    ranks.spans()->count_on(std::make_unique<QueueMarks>(device));
  if (train().arena)
    arena_.emplace(options_.recipe.recipe, options_.run_folder, ranks.rank(), ranks.place().mesh.world(),
                   task.parameters().device());
}

nlohmann::json Trainer::Counters::facts() {
  return {{"tokens", tokens}, {"skipped", skipped}, {"skipped_in_a_row", skipped_in_a_row}};
}

void Trainer::Counters::restore(const checkpoint::SavedFacts& facts) {
  tokens = facts.whole_number("tokens");
  skipped = facts.whole_number("skipped");
  skipped_in_a_row = facts.whole_number("skipped_in_a_row");
}

Resumed Trainer::resume() {
  take_skips();
  const Stopwatch loading;
  NewestCheckpoint from = newest_checkpoint(files_, options_.run_folder, together_, memory_, state_);
  const std::optional<storage::Checkpoint>& newest = from.checkpoint;
  if (!newest) {
    together_.first("checkpoints that are gone", [&]() -> nlohmann::json {
      refuse_lost_checkpoints(events_.path(), checkpoints());
      return nullptr;
    });
    return {};
  }
  fault_point("start.load");
  const storage::Manifest& saved = newest->manifest();
  const recipe::LoadedRecipe earlier = checkpoint::saved_recipe(*newest);
  recipe::refuse_changed(earlier, options_.recipe);
  task_.pass_over(data::skipped_in(saved.data_position));  // also where skip.json was lost
  ramp_.restore({saved.state, newest->folder().string()});
  set_growth();
  task_.require_same_data(saved.data_position, saved.step + 1);
  // what the run began with, whatever is there of it by now
  for (const char* origin : checkpoint::kOriginKeys) {
    const bool known = saved.environment.is_object() && saved.environment.contains(origin);
    if (known && !options_.environment.contains(origin))
      options_.environment[origin] = saved.environment[origin];
  }
  const bool fresh = recipe::begins_fresh_states(earlier, options_.recipe);
  if (outer_state_ && !fresh) outer_state_->expect(saved.state);
  load(*newest, fresh ? checkpoint::OptimizerStates::kFresh : checkpoint::OptimizerStates::kRead);
  if (fresh) {
    optimizer_.set_steps(0);
    if (outer_state_) outer_state_->begin_anew();
  }
  from.lease.release();
  ranks_.share_values(task_.parameters());
  saved_step_ = from.disk_step;
  const bool first = ranks_.rank() == 0;  // its events are those of the run
  if (step_ >= train().steps) judged_ = ranks_.most(first && ended_at(events_.path(), step_) ? 1 : 0) == 1;
  observe::Resume resume{.step = step_, .loading_seconds = loading.seconds(), .bytes = saved.bytes()};
  if (from.in_memory) resume.source = "memory";
  events_.write(resume);
  return {.step = step_, .earlier = earlier.recipe};
}

void Trainer::begin_with(const checkpoint::StartingPoint& from) {
  from.read(checkpoint::tensors_of(state_), options_.recipe);
  // what was read are the anchors: each worker's own weights begin there
  if (outer_state_) outer_state_->begin_anew();
  optimizer_.refresh_values();
  average_.begin();
  ranks_.share_values(task_.parameters());
}

// A signal or the clock, of any rank; the first of them stands.
bool Trainer::stopping() {
  if (outcome_.reason != "finished" || !between_rounds()) return outcome_.reason != "finished";
  constexpr int64_t kTime = 1, kSignal = 2;  // and the signal's number
  const int signal = control_.stop_requested();
  const bool late = until_s_ > 0 && wall_time_s() >= until_s_;
  const int64_t agreed = ranks_.most(signal != 0 ? kSignal + signal : late ? kTime : 0);
  if (agreed >= kSignal) {
    outcome_.signal = static_cast<int>(agreed - kSignal);
    outcome_.reason = "signal";
  } else if (agreed == kTime) {
    outcome_.reason = "until_time";
  }
  return outcome_.reason != "finished";
}

void Trainer::evaluate(bool whole) {
  const observe::SpanScope span(*ranks_.spans(), observe::SpanKind::kEvaluation);
  std::optional<observe::Metrics> evaluation;
  const auto judged = [&] { evaluation = task_.evaluate(whole, [this] { return !stopping(); }); };
  if (options_.outer != nullptr)
    options_.outer->with_agreed_weights(judged);
  else
    judged();
  if (!evaluation) return;
  take_phases(*ranks_.spans(), *evaluation);
  events_.write(observe::evaluation_of(step_, *evaluation));
  control_.evaluated();
}

// Of the state at the end: the whole evaluation, and a sample.
void Trainer::judge() {
  if (train().evaluate_every > 0) evaluate(true);
  if (stopping()) return;
  if (const auto sample = task_.sample())
    events_.write(observe::Sample{.step = step_, .prompt = sample->prompt, .text = sample->text});
}

// What tensors hold on the device: the heartbeat carries it.
int64_t Trainer::device_bytes() const {
  const at::Device device = task_.parameters().device();
  if (!device.is_cpu()) return device_memory(device).allocated_bytes;
  return cpu_allocator_installed() ? memory_statistics().total.bytes : 0;
}

void Trainer::report(const StepResult& result, double milliseconds) {
  const double tokens_per_second = static_cast<double>(result.work.tokens) / (milliseconds * 1e-3);
  observe::StepReport report{.step = step_,
                             .loss = result.loss,
                             .tokens = counters_.tokens,
                             .tokens_per_second = tokens_per_second,
                             .grad_norm = result.gradient_norm,
                             .learning_rate = learning_rate(step_),
                             .milliseconds = milliseconds};
  if (options_.flops_of_sequence) {
    const int64_t sequence = schedule_.sequence(step_);
    shares_.set(options_.flops_of_sequence(sequence));
    report.metrics["sequence_tokens"] = static_cast<double>(sequence);
  }
  shares_.tell(report);
  report.data_wait_milliseconds = result.data_wait_milliseconds;
  report.auxiliary_loss = result.auxiliary_loss;
  report.resident_bytes = resident_bytes();
  if (result.entry_skew_s) report.entry_skew_milliseconds = *result.entry_skew_s * 1e3;
  use_.tell(report);
  if (options_.others) report.taken_by_others = options_.others->share();
  if (const double epochs = task_.epochs_after(step_); epochs > 0) report.epoch = epochs;
  report.metrics.insert(result.metrics.begin(), result.metrics.end());
  if (result.left_out) report.skipped = true;
  if (result.skipped) {
    report.skipped = true;
    events_.write(observe::NonFinite{.step = step_,
                                     .layer = result.skipped->layer,
                                     .tensor = result.skipped->tensor,
                                     .phase = result.skipped->phase});
  }
  events_.write(report);
}

// Behind a step: what the workers do together where it ends a round.
void Trainer::meet_workers(double loss, double seconds) {
  if (options_.outer == nullptr) return;
  const auto round = options_.outer->after_step(
      {.lr = learning_rate(step_), .loss = loss, .seconds = seconds, .left = train().steps - step_});
  if (!round) return;
  observe::OuterRound event{.step = step_,
                            .round = round->round,
                            .steps = round->steps,
                            .synchronous = round->synchronous,
                            .applied = round->applied,
                            .fragment = round->fragment,
                            .exchange_milliseconds = round->exchange_s * 1e3,
                            .waited_milliseconds = round->waited_s * 1e3,
                            .update_milliseconds = round->update_s * 1e3,
                            .gap = round->gap,
                            .strain = round->strain,
                            .gradient_norm = round->gradient,
                            .momentum_norm = round->momentum,
                            .movement = round->movement,
                            .clipped = round->clipped};
  if (round->applied) event.loss = round->loss;
  events_.write(event);
  if (const auto& choice = round->choice) {
    events_.write(observe::OuterEvery{.step = step_,
                                      .every = choice->every,
                                      .step_milliseconds = choice->step_s * 1e3,
                                      .exchange_milliseconds = choice->exchange_s * 1e3,
                                      .update_milliseconds = choice->update_s * 1e3,
                                      .reason = choice->reason});
  }
}

// A NaN or Inf where none may be skipped, or too many steps in a row that changed nothing. Spikes in a row
// are no end where the ladder goes back.
void Trainer::refuse_bad(const StepResult& result) const {
  const bool in_a_row = counters_.skipped_in_a_row >= train().nonfinite_limit;
  const bool none_allowed = result.skipped && !train().skip_nonfinite;
  const bool goes_back = !result.skipped && ladder_.options().on_spike == recipe::OnSpike::kRollBack;
  if (!none_allowed && (!in_a_row || goes_back)) return;
  const BadValue bad = result.skipped.value_or(BadValue{"loss", "mean", "loss"});
  throw Error({.code = ExitCode::kNumeric,
               .what = none_allowed
                           ? "the step gave a NaN or Inf, and none may be skipped (train.skip_nonfinite)"
                           : fmt::format("{} steps in a row gave a NaN, an Inf or a spike",
                                         counters_.skipped_in_a_row),
               .found = fmt::format("{} of {} in the {} pass", bad.tensor, bad.layer, bad.phase),
               .where = fmt::format("step {}", step_),
               .hint = "lower optim.lr, or go back to an earlier checkpoint"});
}

StepOptions Trainer::options_of(int64_t step) {
  return {.lr = learning_rate(step),
          .decay_factor = schedule_.weight_decay_factor(step),
          .clip_norm = options_.recipe.recipe.optim.clip_norm,
          .seed = static_cast<uint64_t>(train().seed),
          .router = options_.recipe.recipe.model.router,
          .measure_first = is_due(options_.recipe.recipe.observe.batch_noise_every, step),
          .measure_update = is_due(options_.recipe.recipe.observe.updates_every, step),
          .measure_entry = is_due(options_.recipe.recipe.observe.entry_skew_every, step),
          .arena = arena_ ? &*arena_ : nullptr,
          .doubtful = ladder_.doubtful(),
          .with_gradients = [this] { copies_.settle(); },
          .before_update =
              [this, step] {
                corruption_.before_update(step);
                if (keeper_) keeper_->changes();
              }};
}

// Counts and reports a step, and lets the guards judge it.
void Trainer::step_ended(StepResult& result, const Stopwatch& watch) {
  take_phases(*ranks_.spans(), result.metrics);
  if (arena_) arena_->tell(result.metrics);
  take_noise(result);
  // the update may only be queued, and its time belongs to this step
  synchronize(task_.parameters().device());
  ++step_;
  result.work.tokens *= ranks_.workers();  // all have as many
  counters_.tokens += result.work.tokens;
  const bool changed_nothing = result.skipped || result.left_out;
  if (!changed_nothing) average_.after_step();
  counters_.skipped_in_a_row = changed_nothing ? counters_.skipped_in_a_row + 1 : 0;
  counters_.skipped += changed_nothing ? 1 : 0;
  step_seconds_ = watch.seconds();
  ranks_.spans()->board().step_ended({.step = step_,
                                      .seconds = step_seconds_,
                                      .loss = result.loss,
                                      .gradient_norm = result.gradient_norm,
                                      .tokens = result.work.tokens,
                                      .own_tokens = result.own_tokens,
                                      .device_seconds = ranks_.spans()->device_seconds()});
  ranks_.spans()->board().device_bytes(device_bytes());
  report(result, step_seconds_ * 1e3);
  tell_growth();
  meet_workers(result.loss, step_seconds_);
  if (result.second_try) corruption_.behind_second_try(step_, *result.second_try);
  const bool rolls_back = ladder_.roll_back_after(result, step_, events_);
  if (changed_nothing) refuse_bad(result);
  if (rolls_back) {
    if (keeper_) keeper_->changes();
    corruption_.states_change();
    roll_back();
    return keep();
  }
  keep();
  if (!changed_nothing) corruption_.behind_step(step_);
}

// Saves and evaluates where that is due after a step.
void Trainer::save_and_evaluate() {
  saver_.poll();
  tell_of_memory();
  const bool asks = control_.save_requested() || (interval_ && interval_->due());
  const bool asked = between_rounds() && ranks_.most(asks ? 1 : 0) == 1;
  SaveTo to{.disk = is_due(train().checkpoint_every, step_) || asked};
  // Each waits for what an outer loop exchanges behind the steps.
  const bool waits_least = options_.outer == nullptr || to.disk || options_.outer->saves_well();
  to.memory = options_.saves && waits_least &&
              memory_.due(step_, step_seconds_, /*every_step=*/options_.outer == nullptr);
  if (options_.saves && (to.disk || to.memory)) save(to);
  if (is_due(train().evaluate_every, step_) && step_ < train().steps) evaluate(false);
}

namespace {

// Records a step with the saves and evaluations after it, also where it ends by an error.
class Recording {
 public:
  Recording(observe::SpanRecorder& spans, observe::TraceWriter* writer, int64_t step)
      : spans_(spans), writer_(writer) {
    if (writer_ != nullptr) spans_.start(step);
  }
  ~Recording() {
    if (writer_ != nullptr) writer_->write(spans_.stop());
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  observe::SpanRecorder& spans_;
  observe::TraceWriter* writer_;  // null: the step is not recorded
};

}  // namespace

void Trainer::next_step() {
  const bool recorded = options_.trace != nullptr && !options_.trace->full() &&
                        is_due(options_.recipe.recipe.observe.trace_every, step_ + 1);
  ranks_.spans()->restart_marks();
  const Recording recording(*ranks_.spans(), recorded ? options_.trace : nullptr, step_ + 1);
  const Stopwatch watch;
  corruption_.before_passes(step_ + 1);
  if (options_.outer != nullptr) corruption_.states_change();  // when it likes
  StepResult result = run_step(task_, optimizer_, ranks_, step_ + 1, options_of(step_ + 1));
  step_ended(result, watch);
  if (auto first = std::exchange(options_.on_first_step, {})) first(step_);
  save_and_evaluate();
}

Outcome Trainer::run() {
  until_s_ = recipe::parse_until_time(train().until_time, wall_time_s());
  outcome_ = {};
  if (train().checkpoint_every < 0 && ranks_.rank() == 0)
    interval_.emplace(train(), earlier_starts(events_.path(), events_.generation()));
  begin_keeping();
  try {
    while (step_ < train().steps && !stopping()) {
      if (control_.continued()) events_.require_still_ours();
      next_step();
    }
    keeper_.reset();
    save_at_the_end();
    control_.trained();
    if (options_.saves && !stopping() && !judged_) judge();
    events_.write(observe::End{.reason = options_.saves ? outcome_.reason : "probe", .step = step_});
  } catch (const Error& error) {
    if (error.code() == ExitCode::kCommunication && keeper_) keeper_->leave();
    if (error.code() != ExitCode::kFenced) {
      saver_.wait();  // what is under way ends before the end is told
      events_.write(observe::End{.reason = "error", .step = step_});
    }
    throw;
  }
  outcome_.step = step_;
  outcome_.saved = saved_step_ == step_;
  memory_.end(outcome_.saved);
  return outcome_;
}

}  // namespace longhaul::train
