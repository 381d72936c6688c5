// The trainer's checkpoints: what is in them, when they have ended, and the last one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads/background_work.h"
#include "recipe/write.h"
#include "train/trainer.h"

namespace longhaul::train {
namespace {

// Before the last save is tried again. A batch system that sent a signal kills soon; a person can cut the
// wait with another one.
constexpr std::array kRetryPauses_s = {1.0, 2.0, 4.0};

}  // namespace

storage::Manifest Trainer::manifest() const {
  storage::Manifest manifest;
  manifest.run_id = events_.run();
  manifest.parent_step = parent_step_;
  manifest.wall_time = wall_time_text(wall_time_s());
  manifest.data_position = task_.data_position(step_ + 1);
  manifest.recipe = {{"toml", recipe::to_toml(options_.recipe)}};
  manifest.environment = options_.environment;
  return manifest;
}

void Trainer::save(SaveTo to) {
  if (to.disk) corruption_.before_save(step_);
  const observe::SpanScope span(*ranks_.spans(), observe::SpanKind::kCheckpoint);
  if (options_.outer != nullptr) options_.outer->settle();
  if (to.disk) saver_.wait();
  const auto entries = checkpoint::tensors_of(state_);
  int64_t bytes = 0;
  for (const checkpoint::StateEntry& entry : entries)
    bytes += entry.to_write() ? static_cast<int64_t>(entry.view.nbytes()) : 0;
  // What waits for earlier saves has their deadlines; what follows has one of its own, also the first time.
  const BackgroundTask task("begin checkpoint", seconds_to_move(bytes));
  // An outer loop changes weights when it likes.
  const auto snapshot = copies_.take(
      entries, options_.outer == nullptr ? checkpoint::Changes::kInUpdates : checkpoint::Changes::kAnyTime);
  storage::Manifest manifest = this->manifest();
  manifest.state = checkpoint::facts_of(state_);
  if (to.memory) memory_.save(step_, snapshot, manifest);
  if (to.disk) saver_.save(step_, snapshot, std::move(manifest));
  if (to.disk && interval_) interval_->began();
}

void Trainer::tell_of_memory() {
  const auto failure = memory_.failure();
  if (!failure) return;
  if (failure->code() == ExitCode::kFenced) throw *failure;
  events_.write(observe::Alarm{
      .kind = "memory_checkpoint_failed",
      .message = fmt::format(
          "no checkpoint in the memory of nodes until this is mended; those on the disk go on: {}",
          failure->what())});
}

void Trainer::on_save_ended(const checkpoint::SaveResult& result) {
  ranks_.spans()->add(observe::BesideSpan{fmt::format("checkpoint of step {} to the disk", result.step),
                                          result.begin_ns, result.end_ns});
  if (!result.removed_for_room.empty()) {
    std::vector<std::string> names;
    for (const auto& path : result.removed_for_room) names.push_back(path.filename().string());
    events_.write(observe::Alarm{
        .kind = "checkpoints_removed",
        .message =
            fmt::format("the disk was full when step {} was to be saved: {} removed to make room ({})",
                        result.step, names.size() == 1 ? "an older checkpoint was" : "older checkpoints were",
                        fmt::join(names, ", "))});
  }
  if (!result.failure) {
    saved_step_ = result.step;
    if (interval_) interval_->ended(result);
    events_.write(
        observe::CheckpointSaved{.step = result.step,
                                 .path = result.path.lexically_relative(options_.run_folder).string(),
                                 .blocking_milliseconds = result.blocking_milliseconds,
                                 .writing_seconds = result.writing_seconds,
                                 .bytes = result.bytes});
    for (const Error& trouble : result.afterwards) {
      events_.write(observe::Alarm{
          .kind = "checkpoint_upkeep",
          .message = fmt::format("the checkpoint of step {} is saved; {}", result.step, trouble.what())});
    }
    return;
  }
  // the run is someone else's: write nothing more
  if (result.failure->code() == ExitCode::kFenced) throw *result.failure;
  events_.write(observe::Alarm{
      .kind = result.failure->code() == ExitCode::kDisk ? "disk_full" : "checkpoint_failed",
      .message = fmt::format("the checkpoint of step {} was not saved, {} stay: {}", result.step,
                             result.removed_for_room.empty() ? "those before it" : "those that must",
                             result.failure->what())});
}

void Trainer::save_at_the_end() {
  if (!options_.saves) return;
  saver_.wait();  // for one that is under way: it may be of this step
  for (size_t attempt = 0; saved_step_ != step_; ++attempt) {
    if (attempt > 0) {
      if (attempt > kRetryPauses_s.size()) break;
      log_warning("saving step {} again in {:.0f} s; a signal ends the wait", step_,
                  kRetryPauses_s[attempt - 1]);
      const bool gives_up = !control_.pause(kRetryPauses_s[attempt - 1]);
      if (ranks_.most(gives_up ? 1 : 0) == 1) break;
    }
    save({.disk = true});
    saver_.wait();
  }
  if (saved_step_ == step_) return;
  const std::string message = fmt::format(
      "the state at step {} is not on the disk: {}", step_,
      saved_step_ < 0
          ? "there is no checkpoint, a start begins anew"
          : fmt::format("a start goes on from step {}, and does {} again", saved_step_, step_ - saved_step_));
  events_.write(observe::Alarm{.kind = "not_saved", .message = message});
}

}  // namespace longhaul::train
