#include "train/saving/memory_checkpoints.h"

#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "checkpoint/memory_tier/survivors.h"

namespace longhaul::train {

using checkpoint::MemorySaver;

namespace {

constexpr int64_t kStillWriting = std::numeric_limits<int64_t>::max();

layout::Mesh mesh_of_copies(const parallel::Ranks& ranks) {
  return ranks.workers() == 1 ? ranks.place().mesh : layout::Mesh();
}

}  // namespace

int64_t steps_between(double cost_s, double step_s, double share) {
  if (step_s <= 0) return 1;
  return std::max<int64_t>(1, std::llround(std::min(std::ceil(cost_s / (share * step_s)), 1e9)));
}

MemoryCheckpoints::MemoryCheckpoints(storage::FileSystem& files, const parallel::Ranks& ranks,
                                     const checkpoint::Writers& together,
                                     const std::optional<checkpoint::TierPlace>& place,
                                     const recipe::TrainOptions& train, const std::string& run,
                                     int64_t generation, int64_t computing_threads)
    : files_(files),
      ranks_(ranks),
      run_(run),
      generation_(generation),
      every_(train.checkpoint_memory_every),
      threads_(computing_threads),
      nodes_(together, every_ != 0 ? place : std::nullopt) {
  if (!nodes_.any()) return;
  const bool first = nodes_.is_first(ranks.rank());
  if (first && !place->disk.empty())
    disk_ = std::make_unique<checkpoint::NodeDisk>(files, place->disk, place->tier, run);
  saver_.emplace(
      files, nodes_,
      checkpoint::MemorySaverOptions{.run = run,
                                     .generation = generation,
                                     .replicas = train.checkpoint_replicas,
                                     .replica_bytes_per_second = train.checkpoint_replica_rate * 1e6,
                                     .mesh = mesh_of_copies(ranks),
                                     .disk = disk_.get()},
      ranks.everyone("memory tier"));
  if (first) storage::NodeTier(files, nodes_.tier_of(nodes_.node_of(ranks.rank())), run).remove_other_runs();
}

std::optional<storage::Checkpoint> MemoryCheckpoints::newest(const checkpoint::Writers& together,
                                                             checkpoint::Providers state,
                                                             const storage::SavedMoment& at_least) {
  if (!on()) return std::nullopt;
  together.each("disks of nodes", [&]() -> nlohmann::json {
    if (disk_) disk_->refill();
    return nullptr;
  });
  checkpoint::take_what_survivors_left(files_, together, nodes_, run_);
  auto found = checkpoint::newest_in_memory(files_, together, nodes_, run_, state, at_least);
  if (found) last_ = found->manifest().step;
  return found;
}

void MemoryCheckpoints::fetch(std::optional<checkpoint::MemorySaveResult> result) {
  if (!result) return;
  failure_ = result->failure;
  if (failure_) return;
  told_ = false;
  ++saves_;
  pause_s_ += result->pause_milliseconds * 1e-3;
  seconds_ += result->seconds;
  cost_s_ = result->pause_milliseconds * 1e-3 +
            (threads_ > 0 ? result->processor_seconds / static_cast<double>(threads_) : 0);
}

bool MemoryCheckpoints::due(int64_t step, double step_seconds, bool every_step) {
  if (!on()) return false;
  if (every_ > 0) {
    if (every_step ? step % every_ != 0 : step - last_ < every_) return false;
    const Stopwatch watch;
    fetch(saver_->wait());
    pause_s_ += watch.seconds();
    return true;
  }
  if (step < next_) return false;
  fetch(saver_->poll());
  const int64_t wanted = ranks_.most(saver_->idle() ? steps_between(cost_s_, step_seconds) : kStillWriting);
  next_ = wanted == kStillWriting ? step + 1 : last_ + wanted;
  return next_ <= step;
}

void MemoryCheckpoints::save(int64_t step, std::shared_ptr<const checkpoint::Snapshot> snapshot,
                             storage::Manifest manifest) {
  last_ = step;
  saver_->save(step, std::move(snapshot), std::move(manifest));
}

bool MemoryCheckpoints::leave(int64_t step, const std::vector<checkpoint::StateEntry>& entries,
                              storage::Manifest manifest) const {
  const storage::NodeTier tier(files_, nodes_.tier_of(nodes_.node_of(ranks_.rank())), run_);
  const int64_t ranks = ranks_.world() != nullptr ? ranks_.world()->size() : 1;
  const checkpoint::LeavingRoom room{
      .ranks_of_node = std::ssize(nodes_.ranks_of(nodes_.node_of(ranks_.rank()))),
      .available_bytes = available_memory_bytes()};
  return checkpoint::leave_state(files_, tier, {generation_, step}, ranks_.rank(), ranks, entries,
                                 std::move(manifest), room);
}

std::optional<Error> MemoryCheckpoints::failure() {
  if (!on()) return std::nullopt;
  fetch(saver_->poll());
  if (!failure_ || told_) return std::nullopt;
  told_ = true;
  return failure_;
}

void MemoryCheckpoints::forget() {
  if (!on()) return;
  fetch(saver_->wait());
  if (disk_) disk_->forget();  // first: it may still be reading what goes from memory
  saver_->forget();
  last_ = next_ = 0;
}

void MemoryCheckpoints::end(bool on_disk) {
  if (!on()) return;
  fetch(saver_->wait());
  if (saves_ > 0 && ranks_.rank() == 0) {
    log_info(
        "{} checkpoints in memory: training stood still for {} of each, and could go on from it after {}",
        saves_, duration_text(pause_s_ / static_cast<double>(saves_)),
        duration_text(seconds_ / static_cast<double>(saves_)));
  }
  if (on_disk) forget();
}

}  // namespace longhaul::train
