// Children: the processes that this process starts, each with a process group of its own; it is notified
// immediately when one ends. The watching process is also a subreaper, to which the orphans of its children
// are reparented, so that nothing that a child started outlives it.
//
//   Children children(loop);
//   // exit code, or 128 + signal
//   const pid_t rank = children.start({.argv = {…}, .log = "rank-3.log"}, [](int status) { … });
//   Children::signal(rank, SIGTERM);
//
// Only the thread that runs the loop may use it. A process has at most one Children object, because it
// handles SIGCHLD: it reaps every child that ended except those that run_process and start_child have
// started, which are waited for there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/event_loop.h"

namespace longhaul {

struct ChildStart {
  std::vector<std::string> argv;         // argv[0] is looked up on PATH
  std::vector<std::string> environment;  // NAME=VALUE, in addition to this process's own
  // Which of this process's variables it inherits; empty: all.
  std::function<bool(std::string_view name)> inherits;
  std::filesystem::path log;     // for standard output and error; empty: this process's own streams
  bool truncates_log = false;    // false: it appends to the log
  std::filesystem::path folder;  // working folder; empty: this process's own
  int death_signal = 0;          // the signal that it gets when the thread that started it ends; 0: none
  bool own_session = false;      // a Ctrl-C or hang-up of the terminal does not reach it
};

// WaitedChild: a child for which its starter waits. Until the object is destroyed, nobody else collects the
// child's exit status.
class WaitedChild {
 public:
  WaitedChild() = default;
  // start() creates the process. No child is reaped between that and the registration of this one.
  explicit WaitedChild(const std::function<pid_t()>& start);
  ~WaitedChild();
  WaitedChild(const WaitedChild&) = delete;
  WaitedChild& operator=(const WaitedChild&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// Error 73 where the log cannot be written, 68 where no process can be created. The caller waits for the
// child.
pid_t start_child(const ChildStart& start);

// The exit code of a child, or 128 + signal; nothing while it runs. Only its starter may ask, and only until
// it has received the code once.
std::optional<int> exit_of(pid_t child);

int64_t user_id();  // user of this process, whose files and processes it may access

class Children {
 public:
  explicit Children(EventLoop& loop);
  ~Children();  // kills and reaps the children that still run
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  pid_t start(const ChildStart& start, std::function<void(int status)> ended);
  static void signal(pid_t child, int signal);  // to the whole process group
  void forget_all() { running_.clear(); }       // they go on without this process
  size_t running() const { return running_.size(); }

 private:
  void reap();
  std::map<pid_t, std::function<void(int)>> running_;
};

}  // namespace longhaul
