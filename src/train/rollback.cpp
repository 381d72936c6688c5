#include "train/rollback.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "storage/catalog.h"
#include "storage/commit.h"
#include "train/trainer.h"

namespace longhaul::train {

std::optional<RollbackTarget> rollback_target(const storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t spike,
                                              int64_t back) {
  std::vector<storage::CheckpointSummary> order, nearer;  // newest first; then, in want of those, the oldest first
  for (const storage::CheckpointSummary& each : storage::list_checkpoints(files, checkpoints)) {
    if (!each.usable() || each.name.step >= spike) continue;
    (each.name.step <= spike - back ? order : nearer).push_back(each);
  }
  order.insert(order.end(), nearer.rbegin(), nearer.rend());
  for (const storage::CheckpointSummary& each : order) {
    try {
      storage::Checkpoint::open(files, each.path).verify();
      return RollbackTarget{each.path.filename().string(), each.name.step};
    } catch (const Error& error) {
      log_warning("passed over {}: {}", each.path.string(), error.what());
    }
  }
  return std::nullopt;
}

int64_t give_up_later(storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t step) {
  std::vector<storage::CheckpointSummary> later;
  for (storage::CheckpointSummary& each : storage::list_checkpoints(files, checkpoints)) {
    if (each.name.step > step) later.push_back(std::move(each));
  }
  std::ranges::sort(later, std::greater<>(), [](const auto& each) { return each.name.step; });
  for (const storage::CheckpointSummary& each : later) storage::discard_folder(files, each.path);
  return static_cast<int64_t>(later.size());
}

// What control/skip.json says, as rank 0 reads it.
void Trainer::take_skips() {
  const std::string text = together_.first("samples to pass over", [&] { return data::skips_text(data::skip_file(options_.run_folder)); });
  const std::vector<data::SkipEntry> skips = data::skips_of(text, data::skip_file(options_.run_folder).string());
  ladder_.remember(skips);
  task_.pass_over(data::ranges_of(skips));
}

void Trainer::load(const storage::Checkpoint& from, checkpoint::OptimizerStates states) {
  checkpoint::load_training_state(from, state_, ranks_.world(), states);
  set_growth();
  step_ = saved_step_ = parent_step_ = from.manifest().step;
}

// Back before the spike of this step, for its data to be passed over (spike_ladder.h).
void Trainer::roll_back() {
  saver_.wait();
  copies_.settle();  // of the state that is read over
  const recipe::GuardOptions& guard = ladder_.options();
  const int64_t spike = step_;
  if (ladder_.rollbacks() >= guard.rollbacks) {
    throw Error({.code = ExitCode::kNumeric,
                 .what = fmt::format("the loss jumps again after {} rollbacks (guard.rollbacks)", ladder_.rollbacks()),
                 .where = fmt::format("step {}", spike),
                 .hint = "look at the data of these steps (control/skip.json), lower optim.lr, or raise guard.rollbacks"});
  }
  memory_.forget();
  const nlohmann::json target = together_.first("rollback", [&]() -> nlohmann::json {
    const auto found = rollback_target(files_, checkpoints(), spike, guard.spike_back);
    if (!found) return nullptr;
    give_up_later(files_, checkpoints(), found->step);
    const auto samples = task_.samples_of(std::max(found->step + 1, spike - guard.spike_back + 1), spike);
    data::SkipEntry skip{
        .range = samples.value_or(data::SampleRange{}), .reason = fmt::format("loss spike at step {}", spike), .by = "trainer"};
    skip.rate_factor = guard.rate_factor;
    data::add_skip(data::skip_file(options_.run_folder), skip);
    return found->name;
  });
  if (target.is_null()) {
    throw Error({.code = ExitCode::kNumeric,
                 .what = "the loss jumps, and there is no checkpoint to go back to",
                 .where = fmt::format("step {}", spike),
                 .hint = "set train.checkpoint_every, or lower optim.lr"});
  }
  take_skips();
  ranks_.settle_values(task_.parameters());
  load(storage::Checkpoint::open(files_, checkpoints() / target.get<std::string>()), checkpoint::OptimizerStates::kRead);
  ranks_.share_values(task_.parameters());
  events_.write(observe::Alarm{.kind = "rollback",
                               .message = fmt::format("from step {} back to {}: {} of {}; learning rate × {:g}", spike, step_,
                                                      ladder_.rollbacks(), guard.rollbacks, ladder_.rate())});
  events_.write(observe::Resume{.step = step_});
}

}  // namespace longhaul::train
