// Requests that arrive as signals (docs/sources/reliability.md §5.11). SIGTERM, SIGXCPU, SIGHUP (a closed
// terminal; nohup's choice to ignore it is kept) and the first SIGINT ask to save and stop; the first SIGINT
// is confirmed on standard error, and a second SIGINT ends the process at once. SIGUSR1 asks for a save.
// SIGUSR2 writes diagnostics (base/process/diagnostics.h). SIGCONT, after a SIGSTOP, is reported to the loop,
// because other processes may have gone on meanwhile. SIGPIPE is ignored, and so is SIGXFSZ, so that a file
// that grows too large is an error like a full disk. The service is process-wide: the command line installs
// it once, and loops read it; a library user who never installs it is never affected.
#pragma once

#include <csignal>
#include <string_view>

namespace longhaul {

// false: for commands that only read and have nothing to save.
void install_signal_handlers(bool say_heard = true);
int stop_signal();  // 0, or the signal that asked to stop
// Error 75 after a request to stop. Long work that has nothing to save calls it as it progresses. `doing`:
// "reading the corpus".
void throw_if_stop_requested(std::string_view doing);
// Waits so many seconds; false: a request to stop that came meanwhile ended the wait. An earlier request does
// not.
bool pause_unless_stopped(double seconds);
bool take_save_request();  // true once per SIGUSR1
bool take_continued();     // true once per SIGCONT

// A request to write the state of this process to where another one finds it, and to end: the signal
// leave_signal(), which is handled from the first call of wait_for_leave_request() on. One thread waits;
// wake_for_leave_request() ends its wait.
int leave_signal();
void wait_for_leave_request();
void wake_for_leave_request();
// BrokenPipesAreErrors: while an object lives, this thread's write to a pipe without a reader is an error and
// raises no SIGPIPE. It is for messages of programs that have not ignored that signal and must end with the
// exit code of their work.
class BrokenPipesAreErrors {
 public:
  BrokenPipesAreErrors() noexcept;
  ~BrokenPipesAreErrors();
  BrokenPipesAreErrors(const BrokenPipesAreErrors&) = delete;
  BrokenPipesAreErrors& operator=(const BrokenPipesAreErrors&) = delete;

 private:
  sigset_t before_;
  bool pending_;  // one was already pending, and is left pending
};

void request_stop(int signal);  // as if the signal had come (for tests and embedding)
void request_stop_for_time();   // as if SIGXCPU had come: the job's time is almost over
void clear_signal_requests();

}  // namespace longhaul
