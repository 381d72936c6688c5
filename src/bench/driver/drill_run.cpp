#include "bench/driver/drill_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/small_disk.h"
#include "base/log.h"
#include "base/memory/memory_group.h"
#include "base/process/fault_point.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "bench/driver/drill_cluster.h"
#include "bench/driver/drill_judgement.h"
#include "bench/driver/driver_drills.h"
#include "control/driver/driver_client.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

constexpr double kCalmTimeout_s = 120, kFaultTimeout_s = 60;  // a run without faults; more for each fault
// of the file system that a run with a full disk is on
constexpr int64_t kRunDisk_bytes = 64 << 20;
// that a rank may still have: less than it is told to take
constexpr int64_t kLimit_bytes = 32 << 20;
// for the driver to know the drill's rank, which waits meanwhile
constexpr double kStatus_s = 20;
// until a full disk is told of, and a node that says nothing given up
constexpr double kAlarm_s = 60, kGivenUp_s = 60;
constexpr double kEnd_s = 20;  // for a run that is broken off
// until a daemon has connected again or is given up, and a slow rank told of
constexpr double kHalfOpen_s = 22, kSlow_s = 90;

int64_t spares_of(const DrillPlan& plan) { return std::ssize(plan.drills) + 1; }

// The supervised run, in the background.
class Launched {
 public:
  Launched(const fs::path& folder, const fs::path& run, int64_t ranks, const DrillPlan& plan,
           const fs::path& marks)
      : start_{.argv = {fs::canonical("/proc/self/exe").string(), "launch", "-n", std::to_string(ranks),
                        "--nodes", "2", "--spares", std::to_string(spares_of(plan)), "--restarts", "100000",
                        (folder / "recipe.toml").string(), "--run", run.string()},
               .environment = {"NO_COLOR=1", "OMP_WAIT_POLICY=passive",
                               "LONGHAUL_FAULTS=" + plan.faults(marks)},
               .log = folder / (run.filename().string() + ".log"),
               // who asked for the run is gone: nobody would empty its disk or type it again
               .death_signal = SIGTERM,
               .own_session = true},
        timeout_s_(kCalmTimeout_s + kFaultTimeout_s * static_cast<double>(plan.drills.size())) {
    // If nodes are machines, the driver must notice a silent machine, which takes it 15 s, so a hang of
    // ranks must not be found before that. Bytes of ranks must go over the links and not through shared
    // memory.
    const std::vector<std::string> more =
        plan.machines ? std::vector<std::string>{"--hang-after", "30",
                                                 "--listen",     DrillCluster::kDriver,
                                                 "--check",      "never",
                                                 "--detect",     "off",
                                                 "--env",        "LONGHAUL_SHARED_WIRE=off"}
                      : std::vector<std::string>{"--hang-after", "3"};
    start_.argv.insert(start_.argv.end(), more.begin(), more.end());
  }
  // Asked first, as it takes its nodes with it: a driver that is killed leaves them, to whom another one may
  // come.
  ~Launched() {
    if (ended()) return;
    Children::signal(child_, SIGTERM);
    for (const Stopwatch asked; !ended() && asked.seconds() < kEnd_s;) pause_briefly();
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
  const std::vector<std::string>& environment() const { return start_.environment; }
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

// Asked of the driver: what it has written down may be a second old, or the word of one that is gone.
std::optional<nlohmann::json> status_of(const fs::path& run) {
  try {
    const control::RunStatus told = control::status_of_run(run);
    auto status = nlohmann::json::parse(told.text, nullptr, /*allow_exceptions=*/false);
    return told.from_driver && status.is_object() ? std::optional(std::move(status)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // just now nobody answers
  }
}

// The entry of a list of the status whose `key` has that value; an empty object where there is none.
nlohmann::json entry(const nlohmann::json& status, const char* list, const char* key,
                     const nlohmann::json& value) {
  for (const auto& one : status.at(list)) {
    if (one.at(key) == value) return one;
  }
  return nlohmann::json::object();
}

pid_t process_of(const nlohmann::json& entry) { return entry.is_object() ? entry.value("pid", pid_t{0}) : 0; }

class FromOutside {
 public:
  FromOutside(Launched& launched, const fs::path& run, const SmallDisk* disk, DrillCluster* cluster)
      : launched_(launched),
        run_(run),
        disk_(disk),
        cluster_(cluster),
        memory_(run.parent_path().filename().string(), kLimit_bytes) {}

  // mark: of the drill's rank, which waits until this returns. False: it could not be done.
  bool meet(const Drill& drill, const FaultMark& mark) {
    if (drill.kind == "disk full") {
      fill_disk();
      return true;
    }
    if (drill.kind == "slow rank" || drill.kind == "link cut" || drill.kind == "half-open connection") {
      do_to_machine(drill, mark);
      return true;
    }
    if (drill.kind == "memory limit") return memory_.take_in(mark.process);
    nlohmann::json status, node;
    // It may still be of the generation before, or name nobody yet.
    const bool known = until(kStatus_s, [&] {
      const auto now = status_of(run_);
      if (!now) return false;
      status = *now;
      if (names_nobody(drill.kind)) return process_of(status.at("driver")) > 1;  // done to the driver alone
      if (process_of(entry(status, "ranks", "rank", drill.rank)) != mark.process) return false;
      node = entry(status, "nodes", "node", mark.node);
      return process_of(status.at("driver")) > 1 && process_of(node) > 1;
    });
    if (!known) return false;
    if (drill.kind == "node frozen") {
      freeze(node);
    } else if (do_from_outside(drill, run_, status)) {
      launched_.wait();
      do_before_it_is_typed_again(drill, run_);
      launched_.start();
      until(kStatus_s, [&] {
        const auto now = status_of(run_);
        return now && next_fault_may_come(drill, mark.generation, *now);
      });
    }
    return true;
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
    std::istringstream lines(read_text(launched_.log()));
    size_t found = 0;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string alarm, kind;
      words >> alarm >> kind;
      if (alarm == "alarm" && kind.ends_with(":") && tells_of_a_full_disk(kind.substr(0, kind.size() - 1)))
        ++found;
    }
    return found;
  }
  // Its connection stays open and says nothing, as that of a machine that hangs. It goes on when it has been
  // given up.
  void freeze(const nlohmann::json& node) const {
    Children::signal(process_of(node), SIGSTOP);
    until_given_up(node.at("node"), kGivenUp_s);
    Children::signal(process_of(node), SIGCONT);
  }
  void do_to_machine(const Drill& drill, const FaultMark& mark) const {
    if (drill.kind == "slow rank") {
      until(kSlow_s, [&] {
        const std::vector<double> told = straggler_alarms(run_, drill.rank);
        return !told.empty() && told.back() >= mark.wall_time;
      });
    } else if (drill.kind == "link cut") {
      cluster_->cut(mark.node);
      until_given_up(mark.node, kGivenUp_s);
      cluster_->join(mark.node);
    } else {
      cluster_->silence(mark.node);
      until_given_up(mark.node, kHalfOpen_s);
    }
  }
  void until_given_up(const std::string& node, double limit_s) const {
    until(limit_s, [&] {
      const auto status = status_of(run_);
      return status && entry(*status, "nodes", "node", node).value("state", "") != "active";
    });
  }
  bool until(double limit_s, const std::function<bool()>& condition) const {
    for (const Stopwatch watch; watch.seconds() < limit_s && !launched_.ended() && !launched_.too_long();) {
      if (condition()) return true;
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
    }
    return false;
  }

  Launched& launched_;
  fs::path run_;
  const SmallDisk* disk_;  // null: no drill fills it
  DrillCluster* cluster_;  // null: the nodes are no machines
  LimitedMemory memory_;
};

}  // namespace

std::optional<int> run_drills(const fs::path& folder, const fs::path& run, int64_t ranks,
                              const DrillPlan& plan, const fs::path& marks,
                              const std::function<void(const std::optional<int>&)>& judge) {
  std::optional<SmallDisk> disk;
  if (std::ranges::find(plan.drills, "disk full", &Drill::kind) != plan.drills.end())
    disk.emplace(run, kRunDisk_bytes);
  std::optional<DrillCluster> cluster;
  if (plan.machines) cluster.emplace(2 + spares_of(plan));
  Launched launched(folder, run, ranks, plan, marks);
  FromOutside outside(launched, run, disk ? &*disk : nullptr, cluster ? &*cluster : nullptr);
  launched.start();
  if (cluster) {
    while (!launched.ended() && !launched.too_long() && !fs::exists(run / "control" / "address"))
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
    cluster->start(run, ranks / 2, launched.environment());
  }
  for (size_t i = 0; i < plan.drills.size(); ++i) {
    const Drill& drill = plan.drills[i];
    if (!drill.from_outside) continue;
    std::optional<FaultMark> mark;
    while (!launched.ended() && !launched.too_long() &&
           !(mark = read_fault_mark(DrillPlan::mark_of(marks, i))))
      if (!pause_unless_stopped(0.02)) throw_if_stop_requested("the drills");
    if (!mark) break;
    const bool done = outside.meet(drill, *mark);
    if (!done) {
      log_warning("{}: {} of rank {} could not be done", run.string(), drill.kind, drill.rank);
      std::ofstream(DrillPlan::undone_of(marks, i)) << "not done\n";
    }
    std::ofstream(DrillPlan::met_of(marks, i)) << "met\n";
  }
  const std::optional<int> status = launched.wait();
  judge(status);
  return status;
}

}  // namespace longhaul::bench
