#include "base/signals.h"

#include <unistd.h>

#include <csignal>

namespace longhaul {
namespace {

// Written by handlers, so nothing but sig_atomic_t.
volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t save_requested = 0;

void on_interrupt(int signal) {
  if (interrupted) _exit(128 + SIGINT);
  interrupted = 1;
  stop_requested = signal;
}
void on_stop(int signal) { stop_requested = signal; }
void on_save(int) { save_requested = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a request waits for its loop; it is no reason for a read to fail
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_stop);
  handle(SIGXCPU, on_stop);
  handle(SIGUSR1, on_save);
  handle(SIGPIPE, SIG_IGN);
}

int stop_signal() { return stop_requested; }

bool take_save_request() {
  if (!save_requested) return false;
  save_requested = 0;
  return true;
}

void request_stop(int signal) { stop_requested = signal; }

void clear_signal_requests() {
  stop_requested = 0;
  interrupted = 0;
  save_requested = 0;
}

}  // namespace longhaul
