#include "base/process/signals.h"

#include <semaphore.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_form.h"
#include "base/process/diagnostics.h"

namespace longhaul {
namespace {

// Written by handlers, in whichever thread they run: only lock-free atomics.
using Flag = std::atomic<int>;
static_assert(Flag::is_always_lock_free);
Flag stop_requested = 0;
Flag stop_requests = 0;  // how many there have been
Flag interrupted = 0;
Flag save_requested = 0;
Flag continued = 0;
Flag on_terminal = 0;  // standard error is one
Flag heard_is_said = 1;

void request(int signal) {
  stop_requested = signal;
  ++stop_requests;
}

// A user who presses Ctrl-C sees at once that it was received: the step, or the save, may take a while yet.
void say_that_it_was_heard() {
  constexpr char kText[] = "\nstopping as soon as what was done is saved; Ctrl-C again aborts at once";
  const size_t begin = on_terminal ? 0 : 1;  // on a terminal the cursor is after ^C, or in a progress bar
  write_message_in_signal(std::string_view(kText).substr(begin));
}

void on_interrupt(int signal) {
  if (interrupted) _exit(128 + SIGINT);
  interrupted = 1;
  request(signal);
  if (heard_is_said) say_that_it_was_heard();
}
void on_stop(int signal) { request(signal); }
void on_save(int) { save_requested = 1; }
void on_continue(int) { continued = 1; }

sem_t* leave_requests() {
  static sem_t requests;
  [[maybe_unused]] static const int made = ::sem_init(&requests, 0, 0);
  return &requests;
}
void on_leave(int) {
  const int before = errno;
  ::sem_post(leave_requests());
  errno = before;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a request waits for its loop, and must not make a read fail
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers(bool say_heard) {
  heard_is_said = say_heard;
  on_terminal = ::isatty(STDERR_FILENO);
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_stop);
  handle(SIGXCPU, on_stop);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_stop);
  handle(SIGUSR1, on_save);
  handle(SIGCONT, on_continue);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);
  install_diagnostics();
}

int leave_signal() { return SIGRTMIN + 3; }

void wait_for_leave_request() {
  (void)leave_requests();  // made before a handler needs it
  handle(leave_signal(), on_leave);
  while (::sem_wait(leave_requests()) != 0 && errno == EINTR) {
  }
}

void wake_for_leave_request() { ::sem_post(leave_requests()); }

int stop_signal() { return stop_requested; }

void throw_if_stop_requested(std::string_view doing) {
  const int signal = stop_signal();
  if (signal == 0) return;
  throw Error({.code = ExitCode::kPreemptedNotSaved,
               .what = fmt::format("stopped while {}", doing),
               .found = fmt::format("signal {}", signal),
               .hint = "start again: what was finished is kept"});
}

bool pause_unless_stopped(double seconds) {
  // The delay until a request is noticed that another thread received.
  constexpr int64_t kSlice_ns = 50'000'000;
  const int before = stop_requests;
  const int64_t end_ns = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  while (stop_requests == before) {
    const int64_t left_ns = end_ns - monotonic_ns();
    if (left_ns <= 0) return true;
    const std::timespec slice{.tv_sec = 0, .tv_nsec = std::min(left_ns, kSlice_ns)};
    ::nanosleep(&slice, nullptr);
  }
  return false;
}

bool take_save_request() { return save_requested.exchange(0) != 0; }
bool take_continued() { return continued.exchange(0) != 0; }

BrokenPipesAreErrors::BrokenPipesAreErrors() noexcept {
  sigset_t set;
  sigpending(&set);
  pending_ = sigismember(&set, SIGPIPE) == 1;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

BrokenPipesAreErrors::~BrokenPipesAreErrors() {
  const int before = errno;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  constexpr std::timespec kNow{};
  while (!pending_ && sigtimedwait(&set, nullptr, &kNow) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = before;
}

void request_stop(int signal) { request(signal); }
void request_stop_for_time() { request(SIGXCPU); }

void clear_signal_requests() {
  stop_requested = 0;
  interrupted = 0;
  save_requested = 0;
  continued = 0;
}

}  // namespace longhaul
