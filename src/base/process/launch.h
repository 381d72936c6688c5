// Launching: several child processes that are one job, each in a process group of its own. Signals that
// request something of this process (SIGINT, SIGTERM, SIGHUP, SIGUSR1) are passed on to each of them once.
// When one fails, the others get some seconds to report why they cannot go on, then SIGTERM, then SIGKILL. If
// this process dies, they get SIGTERM. It is an EventLoop with Children (base/process/children.h) for callers
// that wait for a whole job; like Children, at most one exists in a process at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longhaul {

struct LaunchedProcess {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=VALUE, in addition to this process's own
  // For standard output and error; none: this process's own streams.
  std::optional<std::filesystem::path> log;
};

struct LaunchPatience {
  double others_s = 8;  // for the others to end by themselves after one has failed
  double stop_s = 30;   // and after SIGTERM
};

struct LaunchResult {
  std::vector<int> statuses;  // exit codes, or 128 + signal
  // The process that failed by itself: the first whose code is not `consequence`, else the first of all.
  std::optional<size_t> first;
  bool stopped = false;  // a signal that asks to stop was passed on
};

// `consequence`: the exit code of a process that ends because of another process's failure.
LaunchResult launch(const std::vector<LaunchedProcess>& processes, int consequence,
                    const LaunchPatience& patience = {});

}  // namespace longhaul
