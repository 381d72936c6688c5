#include "train/trainer.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "checkpoint/load.h"
#include "recipe/write.h"
#include "storage/catalog.h"
#include "tensor/device.h"

namespace longhaul::train {
namespace {

checkpoint::SaverOptions saver_options(const TrainerOptions& options, observe::EventWriter& events) {
  const auto& train = options.recipe.recipe.train;
  const std::filesystem::path run_folder = options.run_folder;
  return {
      .folder = run_folder / "checkpoints",
      .generation = events.generation(),
      .retention = {.keep_last = train.checkpoint_keep > 0 ? train.checkpoint_keep : INT64_MAX, .keep_every = train.checkpoint_keep_every},
      .self_test = train.checkpoint_self_test,
      .on_result = [&events, run_folder](const checkpoint::SaveResult& result) {
        if (result.failure) {
          if (result.failure->code() == ExitCode::kFenced) throw *result.failure;  // the run is someone else's: write nothing more
          const bool disk = result.failure->code() == ExitCode::kDisk;
          events.write(observe::Alarm{.kind = disk ? "disk_full" : "checkpoint_failed",
                                      .message = fmt::format("the checkpoint of step {} was not saved; training goes on: {}", result.step,
                                                             result.failure->what())});
          return;
        }
        events.write(observe::CheckpointSaved{.step = result.step,
                                              .path = result.path.lexically_relative(run_folder).string(),
                                              .blocking_milliseconds = result.blocking_milliseconds});
        for (const Error& trouble : result.afterwards) {
          events.write(observe::Alarm{.kind = "checkpoint_upkeep",
                                      .message = fmt::format("the checkpoint of step {} is saved; {}", result.step, trouble.what())});
        }
      }};
}

}  // namespace

Trainer::Trainer(Task& task, optim::Optimizer& optimizer, observe::EventWriter& events, storage::FileSystem& files, TrainerOptions options)
    : task_(task),
      optimizer_(optimizer),
      events_(events),
      files_(files),
      options_(std::move(options)),
      schedule_(options_.recipe.recipe.optim, options_.recipe.recipe.train),
      saver_(files, saver_options(options_, events)) {}

int64_t Trainer::resume() {
  const auto search = storage::find_newest_valid(files_, options_.run_folder / "checkpoints");
  for (const auto& rejected : search.rejected) log_warning("passed over {}: {}", rejected.path.string(), rejected.reason);
  if (!search.newest) return 0;
  const storage::Manifest& saved = search.newest->manifest();
  if (options_.check_saved) options_.check_saved(*search.newest);
  checkpoint::load_training_state(*search.newest, optimizer_);
  const auto number = [&](const char* key) {
    if (!saved.state.contains(key) || !saved.state[key].is_number_integer()) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "the checkpoint lacks a part of the training state",
                   .expected = fmt::format("state.{}", key),
                   .where = search.newest->folder().string()});
    }
    return saved.state[key].get<int64_t>();
  };
  optimizer_.set_steps(number("optimizer_steps"));
  tokens_ = number("tokens");
  skipped_ = number("skipped");
  skipped_in_a_row_ = number("skipped_in_a_row");
  step_ = saved_step_ = parent_step_ = saved.step;
  events_.write(observe::Resume{.step = step_});
  return step_;
}

storage::Manifest Trainer::manifest() const {
  storage::Manifest manifest;
  manifest.run_id = events_.run();
  manifest.parent_step = parent_step_;
  manifest.wall_time = wall_time_text(wall_time_s());
  manifest.data_position = options_.data_position ? options_.data_position(step_ + 1) : nlohmann::json::object();
  manifest.recipe = {{"toml", recipe::to_toml(options_.recipe)}};
  manifest.environment = options_.environment;
  manifest.state = {
      {"optimizer_steps", optimizer_.steps()}, {"tokens", tokens_}, {"skipped", skipped_}, {"skipped_in_a_row", skipped_in_a_row_}};
  return manifest;
}

void Trainer::save() {
  saver_.save(step_, optimizer_.state(), manifest());
  saved_step_ = step_;
}

void Trainer::evaluate(bool whole) {
  const auto evaluation = task_.evaluate(whole);
  if (evaluation) {
    events_.write(observe::Evaluation{
        .step = step_, .loss = evaluation->loss, .bits_per_byte = evaluation->bits_per_byte, .perplexity = evaluation->perplexity});
  }
  evaluated_step_ = step_;
  if (options_.on_progress) options_.on_progress();
}

void Trainer::report(const StepResult& result, double milliseconds) {
  const double tokens_per_second = static_cast<double>(result.work.tokens) / (milliseconds * 1e-3);
  observe::StepReport report{.step = step_,
                             .loss = result.loss,
                             .tokens = tokens_,
                             .tokens_per_second = tokens_per_second,
                             .grad_norm = result.gradient_norm,
                             .learning_rate = schedule_.learning_rate(step_),
                             .milliseconds = milliseconds};
  if (options_.flops_per_token > 0) {
    report.model_flops_per_second = options_.flops_per_token * tokens_per_second;
    if (options_.peak_flops_per_second > 0) {
      report.mfu = *report.model_flops_per_second / options_.peak_flops_per_second;
      report.mfu_full_attention = options_.flops_per_token_full_attention * tokens_per_second / options_.peak_flops_per_second;
    }
  }
  report.data_wait_milliseconds = result.data_wait_milliseconds;
  report.auxiliary_loss = result.auxiliary_loss;
  report.resident_bytes = resident_bytes();
  if (result.work.epoch > 0) report.epoch = result.work.epoch;
  if (result.skipped) {
    report.skipped = true;
    events_.write(observe::NonFinite{
        .step = step_, .layer = result.skipped->layer, .tensor = result.skipped->tensor, .phase = result.skipped->phase});
  }
  events_.write(report);
}

void Trainer::one_step() {
  const Stopwatch watch;
  const StepResult result = run_step(task_, optimizer_, ops_, step_ + 1,
                                     {.lr = schedule_.learning_rate(step_ + 1),
                                      .clip_norm = options_.recipe.recipe.optim.clip_norm,
                                      .skip_nonfinite = train().skip_nonfinite,
                                      .seed = static_cast<uint64_t>(train().seed)});
  synchronize(task_.parameters().device());  // the update may only be queued, and its time belongs to this step
  ++step_;
  tokens_ += result.work.tokens;
  skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
  skipped_ += result.skipped ? 1 : 0;
  report(result, watch.milliseconds());
  if (skipped_in_a_row_ > 0 && skipped_in_a_row_ >= train().nonfinite_limit) {
    throw Error({.code = ExitCode::kNumeric,
                 .what = fmt::format("{} steps in a row gave a NaN or Inf", skipped_in_a_row_),
                 .found = fmt::format("{} of {} in the {} pass", result.skipped->tensor, result.skipped->layer, result.skipped->phase),
                 .where = fmt::format("step {}", step_),
                 .hint = "lower optim.lr, or go back to an earlier checkpoint"});
  }
}

void Trainer::finish(const std::string& reason) {
  if (saved_step_ != step_) save();
  saver_.wait();
  events_.write(observe::End{.reason = reason, .step = step_});
  if (options_.on_progress) options_.on_progress();
}

Outcome Trainer::run() {
  const double until_s = recipe::parse_until_time(train().until_time, wall_time_s());
  const auto due = [&](int64_t every) { return every > 0 && step_ % every == 0; };
  Outcome outcome{.reason = "finished"};
  while (step_ < train().steps) {
    outcome.signal = options_.stop_requested ? options_.stop_requested() : 0;
    if (outcome.signal != 0) outcome.reason = "signal";
    if (outcome.signal == 0 && until_s > 0 && wall_time_s() >= until_s) outcome.reason = "until_time";
    if (outcome.reason != "finished") break;
    if (options_.continued && options_.continued()) events_.require_still_ours();
    one_step();
    saver_.poll();
    if (due(train().checkpoint_every) || (options_.save_requested && options_.save_requested())) save();
    if (due(train().evaluate_every) && step_ < train().steps) evaluate(false);
  }
  if (outcome.reason == "finished" && train().evaluate_every > 0 && evaluated_step_ != step_) evaluate(true);
  finish(outcome.reason);
  outcome.step = step_;
  outcome.saved = !saver_.last_failure().has_value();
  return outcome;
}

}  // namespace longhaul::train
