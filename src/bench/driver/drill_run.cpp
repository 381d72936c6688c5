#include "bench/driver/drill_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/small_disk.h"
#include "base/memory/memory_group.h"
#include "base/process/children.h"
#include "base/process/fault_point.h"
#include "base/process/signals.h"
#include "bench/driver/driver_drills.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kCalmTimeout_s = 120, kFaultTimeout_s = 60;  // a run without faults; more for each fault
constexpr int64_t kRunDisk_bytes = 64 << 20;                  // of the file system that a run with a full disk is on
constexpr int64_t kLimit_bytes = 32 << 20;                    // that a rank may still have: less than it is told to take
constexpr double kStatus_s = 1.5;                             // while the drill's rank takes its time
constexpr double kAlarm_s = 60, kFrozen_s = 60;               // until a full disk is told of, and a node that is frozen given up

// The supervised run, in the background.
class Launched {
 public:
  Launched(const fs::path& folder, const fs::path& run, int64_t ranks, const DrillPlan& plan, const fs::path& marks)
      : start_{.argv = {fs::canonical("/proc/self/exe").string(), "launch", "-n", std::to_string(ranks), "--nodes", "2", "--spares",
                        std::to_string(plan.drills.size() + 1), "--restarts", "100000", "--hang-after", "3",
                        (folder / "recipe.toml").string(), "--run", run.string()},
               .environment = {"NO_COLOR=1", "OMP_WAIT_POLICY=passive", "LONGHAUL_FAULTS=" + plan.faults(marks)},
               .log = folder / (run.filename().string() + ".log"),
               .own_session = true},
        timeout_s_(kCalmTimeout_s + kFaultTimeout_s * static_cast<double>(plan.drills.size())) {}
  ~Launched() {
    if (!ended()) Children::signal(child_, SIGKILL);
  }

  void start() {
    status_.reset();
    child_ = start_child(start_);
  }
  bool ended() {
    if (!status_) status_ = exit_of(child_);
    return status_.has_value();
  }
  const fs::path& log() const { return start_.log; }
  bool too_long() const { return watch_.seconds() > timeout_s_; }
  // Exit code, or 128 + signal; nothing: it took too long.
  std::optional<int> wait() {
    while (!ended() && !too_long()) {
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
    }
    return status_;
  }

 private:
  ChildStart start_;
  double timeout_s_;
  Stopwatch watch_;
  pid_t child_ = 0;
  std::optional<int> status_;
};

std::optional<nlohmann::json> status_of(const fs::path& run) {
  std::ifstream file(run / "control" / "status.json");
  if (!file) return std::nullopt;
  auto status = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  return status.is_object() ? std::optional(std::move(status)) : std::nullopt;
}

// Of a list of the status, the entry with that value.
nlohmann::json entry(const nlohmann::json& status, const char* list, const char* key, const nlohmann::json& value) {
  for (const auto& one : status.at(list)) {
    if (one.at(key) == value) return one;
  }
  return nlohmann::json::object();
}

// Processes are asked for by number: a status that is a second old may name one that is gone.
pid_t process_of(const nlohmann::json& entry) { return entry.is_object() ? entry.value("pid", pid_t{0}) : 0; }

class FromOutside {
 public:
  FromOutside(Launched& launched, const fs::path& run, const SmallDisk* disk)
      : launched_(launched), run_(run), disk_(disk), memory_("drill", kLimit_bytes) {}

  // While the drill's rank takes its time in the drill's step.
  void meet(const Drill& drill) {
    if (drill.kind == "disk full") return fill_disk();
    // A status is written each second: it may still be of the generation before, or name nobody yet.
    nlohmann::json status, rank, node;
    until(kStatus_s, [&] {
      const auto now = status_of(run_);
      if (!now) return false;
      status = *now;
      rank = entry(status, "ranks", "rank", drill.rank);
      node = entry(status, "nodes", "node", rank.value("node", ""));
      if (drill.kind == "memory limit") return memory_.take_in(process_of(rank));
      return process_of(status.at("driver")) > 1 && process_of(node) > 1;
    });
    if (drill.kind == "memory limit" || !status.is_object() || process_of(status.at("driver")) <= 1) return;
    if (drill.kind == "node frozen") {
      if (process_of(node) <= 1) return;
      Children::signal(process_of(node), SIGSTOP);
      return thaw(node);
    }
    if (!do_from_outside(drill, run_, status)) return;
    launched_.wait();
    do_before_it_is_typed_again(drill, run_);
    launched_.start();
  }

 private:
  // Until the alarm has come: its text is in the log of `launch`, which is on another disk.
  void fill_disk() const {
    const size_t before = alarms();
    disk_->fill();
    until(kAlarm_s, [&] { return alarms() > before; });
    disk_->empty();
  }
  size_t alarms() const {
    const std::string text = read_text(launched_.log());
    size_t found = 0;
    for (size_t at = 0; (at = text.find("disk_full", at)) != std::string::npos; ++at) ++found;
    return found;
  }
  // Its connection stays open and says nothing, as that of a machine that hangs or has lost its network. It goes on when it has been given up.
  void thaw(const nlohmann::json& node) const {
    until(kFrozen_s, [&] {
      const auto status = status_of(run_);
      return status && entry(*status, "nodes", "node", node.at("node")).value("state", "") != "active";
    });
    Children::signal(process_of(node), SIGCONT);
  }
  void until(double limit_s, const std::function<bool()>& condition) const {
    for (const Stopwatch watch; watch.seconds() < limit_s && !launched_.ended() && !launched_.too_long() && !condition();)
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
  }

  Launched& launched_;
  fs::path run_;
  const SmallDisk* disk_;  // null: no drill fills it
  LimitedMemory memory_;
};

}  // namespace

std::optional<int> run_drills(const fs::path& folder, const fs::path& run, int64_t ranks, const DrillPlan& plan, const fs::path& marks,
                              const std::function<void(const std::optional<int>&)>& judge) {
  std::optional<SmallDisk> disk;
  if (std::ranges::find(plan.drills, "disk full", &Drill::kind) != plan.drills.end()) disk.emplace(run, kRunDisk_bytes);
  Launched launched(folder, run, ranks, plan, marks);
  FromOutside outside(launched, run, disk ? &*disk : nullptr);
  launched.start();
  for (size_t i = 0; i < plan.drills.size(); ++i) {
    const Drill& drill = plan.drills[i];
    if (!drill.from_outside) continue;
    while (!launched.ended() && !launched.too_long() && !read_fault_mark(DrillPlan::mark_of(marks, i)))
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
    if (launched.ended() || launched.too_long()) break;
    outside.meet(drill);
  }
  const std::optional<int> status = launched.wait();
  judge(status);
  return status;
}

}  // namespace longhaul::bench
