#include "base/launch.h"

#include <sys/wait.h>

#include <array>
#include <csignal>
#include <ctime>

#include "base/children.h"
#include "base/clock.h"
#include "base/process.h"

namespace longhaul {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// While it lives the calling thread takes signals out of a queue instead of being interrupted.
class SignalQueue {
 public:
  SignalQueue() {
    sigemptyset(&set_);
    for (const int signal : kPassedOn) sigaddset(&set_, signal);
    sigaddset(&set_, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~SignalQueue() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  int next(long wait_ns) const {  // 0: none came
    const timespec wait{0, wait_ns};
    const int signal = sigtimedwait(&set_, nullptr, &wait);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_, before_;
};

pid_t start_one(const LaunchedProcess& process) {
  return start_child({.argv = process.argv,
                      .environment = process.environment,
                      .log = process.log.value_or(""),
                      .truncates_log = true,
                      .death_signal = SIGTERM});
}

class Job {
 public:
  Job(const std::vector<LaunchedProcess>& processes, int consequence, const LaunchPatience& patience)
      : consequence_(consequence), patience_(patience) {
    result_.statuses.assign(processes.size(), -1);
    try {
      for (const LaunchedProcess& process : processes) children_.push_back(start_one(process));
    } catch (...) {
      send(SIGKILL);
      while (running()) reap(0);
      throw;
    }
  }

  LaunchResult run() {
    while (running()) {
      const int signal = queue_.next(50'000'000);
      if (signal != 0 && signal != SIGCHLD) {
        result_.stopped |= signal != SIGUSR1;
        send(signal);
      }
      reap(WNOHANG);
      end_others();
    }
    return result_;
  }

 private:
  bool running() const {
    for (size_t i = 0; i < children_.size(); ++i) {
      if (result_.statuses[i] < 0) return true;
    }
    return false;
  }

  void send(int signal) const {
    for (size_t i = 0; i < children_.size(); ++i) {
      if (result_.statuses[i] < 0) ::kill(children_[i], signal);
    }
  }

  void reap(int flags) {
    for (size_t i = 0; i < children_.size(); ++i) {
      int status = 0;
      if (result_.statuses[i] >= 0 || ::waitpid(children_[i], &status, flags) != children_[i]) continue;
      result_.statuses[i] = status_code(status);
      if (result_.statuses[i] != 0) note_failure(i);
    }
  }

  void note_failure(size_t index) {
    const bool own = result_.statuses[index] != consequence_;
    const bool only_consequence = result_.first && result_.statuses[*result_.first] == consequence_;
    if (!result_.first) since_.emplace();
    // What we ended ourselves did not fail by itself.
    if (!result_.first || (own && only_consequence && signals_sent_ == 0)) result_.first = index;
  }

  // After a request to stop every rank saves and ends in its own time.
  void end_others() {
    if (!since_ || (result_.stopped && signals_sent_ == 0 && result_.statuses[*result_.first] != consequence_)) return;
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
  SignalQueue queue_;
  std::vector<pid_t> children_;
  LaunchResult result_;
  std::optional<Stopwatch> since_;  // the first failure
  int signals_sent_ = 0;
};

}  // namespace

LaunchResult launch(const std::vector<LaunchedProcess>& processes, int consequence, const LaunchPatience& patience) {
  return Job(processes, consequence, patience).run();
}

}  // namespace longhaul
