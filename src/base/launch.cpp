#include "base/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"

namespace longhaul {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

[[noreturn]] void launch_failed(const std::string& what) {
  throw Error({.code = ExitCode::kInternal, .what = what, .found = std::generic_category().message(errno)});
}

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
  void restore_in_child() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t set_, before_;
};

// In the child, after fork: only calls that are allowed there, but for the environment, which a program of one thread may set.
[[noreturn]] void become(const LaunchedProcess& process, const std::vector<char*>& argv, int log, pid_t parent, const SignalQueue& queue) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  queue.restore_in_child();
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  for (const std::string& entry : process.environment) ::putenv(const_cast<char*>(entry.c_str()));
  ::execvp(argv[0], argv.data());
  ::_exit(static_cast<int>(ExitCode::kInternal));
}

pid_t start_one(const LaunchedProcess& process, const SignalQueue& queue) {
  int log = -1;
  if (process.log) {
    log = ::open(process.log->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (log < 0) {
      throw Error({.code = ExitCode::kDisk,
                   .what = "cannot write the log of a rank",
                   .found = std::generic_category().message(errno),
                   .where = process.log->string()});
    }
  }
  std::vector<char*> argv;
  for (const std::string& word : process.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(process, argv, log, parent, queue);
  if (log >= 0) ::close(log);
  if (child < 0) launch_failed("cannot start a process");
  return child;
}

class Job {
 public:
  Job(const std::vector<LaunchedProcess>& processes, int consequence, const LaunchPatience& patience)
      : consequence_(consequence), patience_(patience) {
    result_.statuses.assign(processes.size(), -1);
    try {
      for (const LaunchedProcess& process : processes) children_.push_back(start_one(process, queue_));
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
      result_.statuses[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
