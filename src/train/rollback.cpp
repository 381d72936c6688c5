#include "train/rollback.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "checkpoint/disk/verify_together.h"
#include "storage/catalog.h"
#include "storage/commit.h"
#include "train/trainer.h"

namespace longhaul::train {

namespace {

// `name` under a name that is nobody's yet.
std::filesystem::path aside(const storage::FileSystem& files, const std::filesystem::path& checkpoints,
                            const std::string& name) {
  std::filesystem::path to = checkpoints / ("given-up-" + name);
  for (int64_t attempt = 2; files.exists(to); ++attempt)
    to = checkpoints / fmt::format("given-up-{}-{}", name, attempt);
  return to;
}

}  // namespace

std::vector<RollbackTarget> rollback_targets(const storage::FileSystem& files,
                                             const std::filesystem::path& checkpoints, int64_t spike,
                                             int64_t back) {
  std::vector<RollbackTarget> order, nearer;  // newest first; then, in want of those, the oldest first
  for (const storage::CheckpointSummary& each : storage::list_checkpoints(files, checkpoints)) {
    if (!each.usable() || each.name.step >= spike) continue;
    (each.name.step <= spike - back ? order : nearer)
        .push_back({each.path.filename().string(), each.name.step});
  }
  order.insert(order.end(), nearer.rbegin(), nearer.rend());
  return order;
}

int64_t give_up_later(storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t step) {
  std::vector<storage::CheckpointSummary> later;
  for (storage::CheckpointSummary& each : storage::list_checkpoints(files, checkpoints)) {
    if (each.name.step > step) later.push_back(std::move(each));
  }
  std::ranges::sort(later, std::greater<>(), [](const auto& each) { return each.name.step; });
  for (const storage::CheckpointSummary& each : later) {
    if (!each.is_protected) {
      storage::discard_folder(files, each.path);
      continue;
    }
    const std::string name = each.path.filename().string(), keep = name + ".keep";
    const std::filesystem::path to = aside(files, checkpoints, name);
    files.rename(each.path, to);
    // the name may be saved again, and need not be kept then
    files.rename(checkpoints / keep, to.string() + ".keep");
    files.sync_folder(checkpoints);
    log_warning("the run goes back before {}, which is kept for good: it lies in {} now", name, to.string());
  }
  return static_cast<int64_t>(later.size());
}

// What control/skip.json says, as rank 0 reads it.
void Trainer::take_skips() {
  const std::string text = together_.first(
      "samples to pass over", [&] { return data::skips_text(data::skip_file(options_.run_folder)); });
  const std::vector<data::SkipEntry> skips =
      data::skips_of(text, data::skip_file(options_.run_folder).string());
  ladder_.remember(skips);
  task_.pass_over(data::ranges_of(skips));
}

void Trainer::load(const storage::Checkpoint& from, checkpoint::OptimizerStates states) {
  checkpoint::load_training_state(from, state_, ranks_.world(), states);
  set_growth();
  step_ = saved_step_ = parent_step_ = from.manifest().step;
  task_.continue_after(step_);
}

// The name of the checkpoint before the spike that is whole; what came after it is given up, and its data are
// passed over from now on.
std::string Trainer::go_back_to(int64_t spike) {
  const recipe::GuardOptions& guard = ladder_.options();
  const nlohmann::json targets = together_.first("where to go back to", [&]() -> nlohmann::json {
    nlohmann::json list = nlohmann::json::array();
    for (const RollbackTarget& each : rollback_targets(files_, checkpoints(), spike, guard.spike_back))
      list.push_back({each.name, each.step});
    return list;
  });
  for (const nlohmann::json& target : targets) {
    const std::string name = target[0];
    const int64_t step = target[1];
    const std::string damage = checkpoint::damage_of(files_, checkpoints(), name, together_);
    if (!damage.empty()) {
      if (ranks_.rank() == 0) log_warning("passed over {}: {}", (checkpoints() / name).string(), damage);
      continue;
    }
    together_.first("rollback", [&]() -> nlohmann::json {
      give_up_later(files_, checkpoints(), step);
      const auto samples = task_.samples_of(std::max(step + 1, spike - guard.spike_back + 1), spike);
      data::SkipEntry skip{.range = samples.value_or(data::SampleRange{}),
                           .reason = fmt::format("loss spike at step {}", spike),
                           .by = "trainer"};
      skip.rate_factor = guard.rate_factor;
      data::add_skip(data::skip_file(options_.run_folder), skip);
      return nullptr;
    });
    return name;
  }
  throw Error({.code = ExitCode::kNumeric,
               .what = "the loss jumps, and there is no checkpoint to go back to",
               .where = fmt::format("step {}", spike),
               .hint = "set train.checkpoint_every, or lower optim.lr"});
}

// Back before the spike of this step, for its data to be passed over (spike_ladder.h).
void Trainer::roll_back() {
  saver_.wait();
  copies_.settle();  // of the state that is read over
  const recipe::GuardOptions& guard = ladder_.options();
  const int64_t spike = step_;
  if (ladder_.rollbacks() >= guard.rollbacks) {
    throw Error({.code = ExitCode::kNumeric,
                 .what = fmt::format("the loss jumps again after {} rollbacks (guard.rollbacks)",
                                     ladder_.rollbacks()),
                 .where = fmt::format("step {}", spike),
                 .hint = "look at the data of these steps (control/skip.json), lower optim.lr, or raise "
                         "guard.rollbacks"});
  }
  memory_.forget();
  const std::string target = go_back_to(spike);
  take_skips();
  ranks_.settle_values(task_.parameters());
  const Stopwatch loading;
  const storage::Checkpoint back = storage::Checkpoint::open_unchecked(files_, checkpoints() / target);
  load(back, checkpoint::OptimizerStates::kRead);
  ranks_.share_values(task_.parameters());
  events_.write(
      observe::Alarm{.kind = "rollback",
                     .message = fmt::format("from step {} back to {}: {} of {}; learning rate × {:g}", spike,
                                            step_, ladder_.rollbacks(), guard.rollbacks, ladder_.rate())});
  events_.write(
      observe::Resume{.step = step_, .loading_seconds = loading.seconds(), .bytes = back.manifest().bytes()});
}

}  // namespace longhaul::train
