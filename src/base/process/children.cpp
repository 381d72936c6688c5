#include "base/process/children.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/process/environment.h"
#include "base/process/process.h"

namespace longhaul {
namespace {

constexpr double kReap_s = 0.2;

// Runs in the child after fork: only async-signal-safe calls are allowed.
[[noreturn]] void become(const ChildStart& start, char* const* argv, char* const* environment, int log,
                         pid_t parent) {
  if (start.own_session) {
    ::setsid();
  } else {
    ::setpgid(0, 0);
  }
  if (start.death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, start.death_signal);
    if (::getppid() != parent) ::_exit(128 + start.death_signal);
  }
  if (!start.folder.empty() && ::chdir(start.folder.c_str()) != 0)
    ::_exit(static_cast<int>(ExitCode::kUsage));
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::execvpe(argv[0], argv, environment);
  ::_exit(static_cast<int>(ExitCode::kInternal));
}

int open_log(const ChildStart& start) {
  if (start.log.empty()) return -1;
  const int log = ::open(start.log.c_str(),
                         O_WRONLY | O_CREAT | O_CLOEXEC | (start.truncates_log ? O_TRUNC : O_APPEND), 0666);
  if (log >= 0) return log;
  throw Error({.code = ExitCode::kDisk,
               .what = "cannot write the log of a process",
               .found = std::generic_category().message(errno),
               .where = start.log.string()});
}

}  // namespace

namespace {

// Pids of children for whose ends a caller waits.
struct WaitedFor {
  std::mutex mutex;
  std::set<pid_t> pids;
};
WaitedFor& waited_for() {
  static WaitedFor all;
  return all;
}

pid_t make_child(const ChildStart& start) {
  LONGHAUL_ASSERT(!start.argv.empty(), "no program");
  const int log = open_log(start);
  std::vector<char*> argv;
  for (const std::string& word : start.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> environment = merge_environment(start.environment, start.inherits);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  const int reason = errno;
  if (child == 0) become(start, argv.data(), environment.data(), log, parent);
  if (log >= 0) ::close(log);
  if (child < 0) {
    throw Error({.code = ExitCode::kOutOfMemory,
                 .what = "cannot start a process",
                 .found = std::generic_category().message(reason),
                 .where = start.argv[0],
                 .hint = "raise the limit of processes: ulimit -u"});
  }
  // Here as well: a signal to the group may be sent before the child has set it.
  if (!start.own_session) ::setpgid(child, child);
  return child;
}

}  // namespace

WaitedChild::WaitedChild(const std::function<pid_t()>& start) {
  const std::lock_guard lock(waited_for().mutex);
  pid_ = start();
  waited_for().pids.insert(pid_);
}

WaitedChild::~WaitedChild() {
  const std::lock_guard lock(waited_for().mutex);
  waited_for().pids.erase(pid_);
}

pid_t start_child(const ChildStart& start) {
  const std::lock_guard lock(waited_for().mutex);
  const pid_t child = make_child(start);
  waited_for().pids.insert(child);
  return child;
}

std::optional<int> exit_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child) return std::nullopt;
  const std::lock_guard lock(waited_for().mutex);
  waited_for().pids.erase(child);
  return status_code(status);
}

int64_t user_id() { return ::geteuid(); }

Children::Children(EventLoop& loop) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  loop.on_signal(SIGCHLD, [this] { reap(); });
  // Threads that existed before the loop, such as OpenMP's, do not block the signal, and a signal delivered
  // to them is lost.
  loop.every(kReap_s, [this] { reap(); });
}

Children::~Children() {
  for (const auto& [child, ended] : running_) signal(child, SIGKILL);
  for (const auto& [child, ended] : running_) ::waitpid(child, nullptr, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

pid_t Children::start(const ChildStart& start, std::function<void(int status)> ended) {
  const pid_t child = make_child(start);
  running_[child] = std::move(ended);
  return child;
}

void Children::signal(pid_t child, int signal) { ::kill(-child, signal); }

// Reaps its own children first, then, one by one, orphans of children. If the next orphan belongs to a caller
// that waits for it, the rest is reaped the next time.
void Children::reap() {
  std::vector<pid_t> own;
  for (const auto& [child, ended] : running_) own.push_back(child);
  int status = 0;
  for (const pid_t child : own) {
    if (::waitpid(child, &status, WNOHANG) != child) continue;
    const auto found = running_.find(child);
    if (found == running_.end()) continue;  // removed in the reaction to another child's end
    const auto ended = std::move(found->second);
    running_.erase(found);
    signal(child, SIGKILL);  // the processes that it started end with it
    ended(status_code(status));
  }
  const std::lock_guard lock(waited_for().mutex);
  for (siginfo_t next{}; ::waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) == 0 && next.si_pid > 0;
       next = {}) {
    if (waited_for().pids.contains(next.si_pid) || running_.contains(next.si_pid)) return;
    ::waitpid(next.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace longhaul
