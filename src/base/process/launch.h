// Launching: several child processes that are one job, each of its own process group. Signals that ask this process for something (SIGINT,
// SIGTERM, SIGHUP, SIGUSR1) are passed on to each of them once; when one fails, the others get some seconds to say why they cannot go on,
// then SIGTERM, then SIGKILL. If this process dies, they get SIGTERM. An EventLoop with Children (base/process/children.h) for whoever waits for a whole job;
// like those, one at a time in a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

struct LaunchedProcess {
  std::vector<std::string> argv;
  std::vector<std::string> environment;      // NAME=VALUE, beside this process's own
  std::optional<std::filesystem::path> log;  // for both its streams; none: they are this process's
};

struct LaunchPatience {
  double others_s = 8;  // for the others to end by themselves, after one has failed
  double stop_s = 30;   // and after SIGTERM
};

struct LaunchResult {
  std::vector<int> statuses;    // exit codes, or 128 + signal
  std::optional<size_t> first;  // the process that failed by itself: the first whose code is not `consequence`, else the first of all
  bool stopped = false;         // a signal was passed on that asks to stop
};

// `consequence`: the exit code that tells of another process's failure.
LaunchResult launch(const std::vector<LaunchedProcess>& processes, int consequence, const LaunchPatience& patience = {});

}  // namespace longhaul
