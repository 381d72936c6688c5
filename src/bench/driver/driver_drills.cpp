#include "bench/driver/driver_drills.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/children.h"
#include "base/process/process_limits.h"
#include "base/process/signals.h"
#include "control/driver/driver_client.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kHeldUp_s = 17;  // longer than the silence after which a daemon is taken for lost
constexpr double kNoFiles_s = 3, kPatience_s = 60;

pid_t driver_of(const json& status) { return status.at("driver").at("pid").get<pid_t>(); }

// The node of the drill's rank, as the status has it; null: there is none.
const json* node_of(const Drill& drill, const json& status) {
  for (const json& rank : status.at("ranks")) {
    if (rank.at("rank") != drill.rank) continue;
    for (const json& node : status.at("nodes")) {
      if (node.at("node") == rank.at("node")) return &node;
    }
  }
  return nullptr;
}

void pause(double seconds) {
  if (!pause_unless_stopped(seconds)) throw_if_stop_requested("the drills");
}

int64_t generation_of(const fs::path& run) {
  try {
    return json::parse(control::status_of_run(run).text).at("generation").get<int64_t>();
  } catch (const Error&) {
    return 0;  // just now nobody answers
  }
}

int64_t open_files_of(pid_t process) {
  std::error_code gone;
  const fs::directory_iterator files(fmt::format("/proc/{}/fd", process), gone);
  return std::distance(begin(files), end(files));
}

// What its ranks are to meet stands in the environment of the daemon that they are started by.
std::string planned_faults_of(pid_t daemon) {
  std::ifstream file(fmt::format("/proc/{}/environ", daemon));
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with("LONGHAUL_FAULTS=")) return variable;
  }
  return "LONGHAUL_FAULTS=";
}

void hold_up(pid_t driver) {
  Children::signal(driver, SIGSTOP);
  pause(kHeldUp_s);
  Children::signal(driver, SIGCONT);
}

// The disk takes nothing from the driver until the ranks of the next generation are started.
void evict_on_a_full_disk(const Drill& drill, const fs::path& run, const json& status) {
  const pid_t driver = driver_of(status);
  const int64_t before = status.at("generation").get<int64_t>();
  const ProcessLimit nothing_more(driver, ProcessLimit::Kind::kFileBytes, 1);
  try {
    control::ask_driver(run,
                        control::EvictRequest{.target = std::to_string(drill.rank), .reason = "a drill"});
  } catch (const Error& error) {
    return log_warning("the drill's rank was not evicted: {}", error.what());  // its outcome says so too
  }
  for (const Stopwatch watch; generation_of(run) <= before && watch.seconds() < kPatience_s;) pause(0.1);
}

// As systemd, a pod's kubelet or a loop does.
void restart_daemon(const Drill& drill, const fs::path& run, const json& node) {
  const pid_t before = node.at("pid").get<pid_t>();
  const std::string faults = planned_faults_of(before);
  Children::signal(before, SIGKILL);
  const fs::path control = run / "control";
  start_child({.argv = {fs::canonical("/proc/self/exe").string(), "node", "--driver", control / "address",
                        "--secret", control / "secret", "--name", node.at("node").get<std::string>(),
                        "--slots", std::to_string(node.at("slots").get<int64_t>()), "--shares-machine"},
               .environment = {"NO_COLOR=1", "OMP_WAIT_POLICY=passive", faults},
               .log = run / "logs" / fmt::format("restarted-{}.log", drill.step),
               .own_session = true});
}

}  // namespace

bool names_nobody(const std::string& kind) {
  return kind == "driver killed" || kind == "driver held up" || kind == "driver opens no file" ||
         kind == "journal lost";
}

bool names_a_node(const std::string& kind) {
  return kind.starts_with("node") || kind == "daemon restarted" || kind == "link cut" ||
         kind == "half-open connection";
}

bool do_from_outside(const Drill& drill, const fs::path& run, const json& status) {
  const json* const node = node_of(drill, status);
  if (drill.kind == "driver held up") {
    hold_up(driver_of(status));
  } else if (drill.kind == "driver opens no file") {
    const pid_t driver = driver_of(status);
    const ProcessLimit no_more(driver, ProcessLimit::Kind::kOpenFiles, open_files_of(driver));
    pause(kNoFiles_s);
  } else if (drill.kind == "full disk at eviction") {
    evict_on_a_full_disk(drill, run, status);
  } else if (drill.kind == "daemon restarted" && node != nullptr) {
    restart_daemon(drill, run, *node);
  } else if (drill.kind == "node killed" && node != nullptr) {
    Children::signal(node->at("pid").get<pid_t>(), SIGKILL);
  } else if (drill.kind == "driver killed" || drill.kind == "journal lost") {
    Children::signal(driver_of(status), SIGKILL);
    return true;
  }
  return false;
}

void do_before_it_is_typed_again(const Drill& drill, const fs::path& run) {
  const fs::path journal = run / "control" / "journal.jsonl";
  if (drill.kind == "journal lost") fs::rename(journal, fs::path(journal) += fmt::format(".{}", drill.step));
}

bool next_fault_may_come(const Drill& drill, int64_t generation, const json& status) {
  return drill.kind != "journal lost" || status.at("generation").get<int64_t>() > generation;
}

}  // namespace longhaul::bench
