// Children: processes that this one starts, each with a process group of its own, and whose ends it is told of at once. A process that
// watches some is also the one to whom what they leave behind falls (a subreaper): nothing that a child started outlives what ended it.
//
//   Children children(loop);
//   const pid_t rank = children.start({.argv = {…}, .log = "rank-3.log"}, [](int status) { … });   // exit code, or 128 + signal
//   Children::signal(rank, SIGTERM);
//
// Only the thread that runs the loop may use it. A process has one Children at most, because it handles SIGCHLD: it reaps every child that ended except
// those that run_process and start_child have started, which are waited for there.
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
  std::vector<std::string> argv;                        // argv[0] is looked up on PATH
  std::vector<std::string> environment;                 // NAME=VALUE, beside this process's own
  std::function<bool(std::string_view name)> inherits;  // which of those; empty: all
  std::filesystem::path log;                            // for both its streams; empty: they are this process's
  bool truncates_log = false;                           // else it goes on where the log ends
  std::filesystem::path folder;                         // to run in; empty: this process's own
  int death_signal = 0;                                 // what it gets when the thread that started it ends; 0: nothing
  bool own_session = false;                             // a terminal's Ctrl-C and hang-up do not reach it
};

// A child that is waited for by who started it, with the pid for a name: until it is let go of, nobody else takes its end.
class WaitedChild {
 public:
  WaitedChild() = default;
  // start() makes the process; no end of any child is taken between that and the note of whose it is.
  explicit WaitedChild(const std::function<pid_t()>& start);
  ~WaitedChild();
  WaitedChild(const WaitedChild&) = delete;
  WaitedChild& operator=(const WaitedChild&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// Error 73 where the log cannot be written, 68 where no process can be made. The caller waits for it.
pid_t start_child(const ChildStart& start);

// How it ended: its exit code, or 128 + signal; nothing while it runs. Of whoever started it, and until it has said so once.
std::optional<int> exit_of(pid_t child);

int64_t user_id();  // of this process: whose files and processes it may touch

class Children {
 public:
  explicit Children(EventLoop& loop);
  ~Children();  // kills those that run, and waits for them
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  pid_t start(const ChildStart& start, std::function<void(int status)> ended);
  static void signal(pid_t child, int signal);  // the whole group
  void forget_all() { running_.clear(); }       // they go on without us
  size_t running() const { return running_.size(); }

 private:
  void reap();
  std::map<pid_t, std::function<void(int)>> running_;
};

}  // namespace longhaul
