#include "base/process/launch.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "base/clock.h"
#include "base/net/event_loop.h"
#include "base/process/children.h"

namespace longhaul {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
constexpr double kLook_s = 0.05;

class Job {
 public:
  Job(const std::vector<LaunchedProcess>& processes, int consequence, const LaunchPatience& patience)
      : consequence_(consequence), patience_(patience) {
    result_.statuses.assign(processes.size(), -1);
    for (const int signal : kPassedOn) {
      loop_.on_signal(signal, [this, signal] {
        result_.stopped |= signal != SIGUSR1;
        send(signal);
      });
    }
    for (size_t i = 0; i < processes.size(); ++i) {
      started_.push_back(children_.start({.argv = processes[i].argv,
                                          .environment = processes[i].environment,
                                          .log = processes[i].log.value_or(""),
                                          .truncates_log = true,
                                          .death_signal = SIGTERM},
                                         [this, i](int status) { ended(i, status); }));
    }
  }

  LaunchResult run() {
    loop_.every(kLook_s, [this] { end_others(); });
    if (running()) loop_.run();
    return result_;
  }

 private:
  bool running() const {
    return std::ranges::any_of(result_.statuses, [](int status) { return status < 0; });
  }

  void send(int signal) const {
    for (size_t i = 0; i < started_.size(); ++i) {
      if (result_.statuses[i] < 0) Children::signal(started_[i], signal);
    }
  }

  void ended(size_t index, int status) {
    result_.statuses[index] = status;
    if (status != 0) note_failure(index);
    if (!running()) loop_.stop();
  }

  void note_failure(size_t index) {
    const bool own = result_.statuses[index] != consequence_;
    const bool only_consequence = result_.first && result_.statuses[*result_.first] == consequence_;
    if (!result_.first) since_.emplace();
    // A process that we ended did not fail by itself.
    if (!result_.first || (own && only_consequence && signals_sent_ == 0)) result_.first = index;
  }

  // After a request to stop every rank saves and ends in its own time.
  void end_others() {
    if (!since_ ||
        (result_.stopped && signals_sent_ == 0 && result_.statuses[*result_.first] != consequence_))
      return;
    if (signals_sent_ == 0 && since_->seconds() > patience_.others_s) {
      send(SIGTERM);
      ++signals_sent_;
    } else if (signals_sent_ == 1 && since_->seconds() > patience_.others_s + patience_.stop_s) {
      send(SIGKILL);
      ++signals_sent_;
    }
  }

  int consequence_;
  LaunchPatience patience_;
  EventLoop loop_;
  Children children_{loop_};
  std::vector<pid_t> started_;
  LaunchResult result_;
  std::optional<Stopwatch> since_;  // the first failure
  int signals_sent_ = 0;
};

}  // namespace

LaunchResult launch(const std::vector<LaunchedProcess>& processes, int consequence,
                    const LaunchPatience& patience) {
  return Job(processes, consequence, patience).run();
}

}  // namespace longhaul
