// Requests that arrive as signals (docs/sources/reliability.md §5.11): SIGTERM, SIGXCPU, SIGHUP (a terminal that was closed; nohup's choice to
// ignore it stands) and the first SIGINT, which says on standard error that it was heard, ask for save-and-stop, a second SIGINT ends at once; SIGUSR1 asks for a save; SIGUSR2 writes
// diagnostics (base/process/diagnostics.h); SIGCONT, after a SIGSTOP, is told to the loop, since the world may have moved on meanwhile. SIGPIPE is ignored, and
// SIGXFSZ, so that a file that grows too large is an error like a full disk. A process-wide service: installed once by
// the command line, read by whoever runs a loop; a library user who never installs it is never affected.
#pragma once

#include <csignal>
#include <string_view>

namespace longhaul {

void install_signal_handlers(bool say_heard = true);  // false: for who only looks, and has nothing to save
int stop_signal();                                    // 0, or the signal that asked to stop
// Error 75 after a request to stop: for long work that has nothing to save, wherever it makes progress. `doing`: "reading the corpus".
void throw_if_stop_requested(std::string_view doing);
// Waits so long; false: a request to stop that came meanwhile ended it. An earlier request does not.
bool pause_unless_stopped(double seconds);
bool take_save_request();  // true once per SIGUSR1
bool take_continued();     // true once per SIGCONT

// A request to leave what this process holds where another one finds it, and to end: the signal leave_signal(), for which a handler is there from the
// first call of wait_for_leave_request() on. One thread waits; wake_… is for the one that wants it to end.
int leave_signal();
void wait_for_leave_request();
void wake_for_leave_request();
// While one lives, this thread's writing to a pipe that nobody reads any more is an error, and no SIGPIPE comes of it: for messages of programs that
// have not ignored that signal, and are to end with the code of what they did.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors() noexcept;
  ~BrokenPipesAreErrors();
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t before_;
  bool pending_;  // one waited before, and is not ours to take
};

void request_stop(int signal);  // as if the signal had come (tests, embedding)
void request_stop_for_time();   // as if SIGXCPU had: the time that this job was given is almost over
void clear_signal_requests();

}  // namespace longhaul
