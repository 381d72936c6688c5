#include "base/signals.h"

#include <unistd.h>

#include <csignal>

#include "base/diagnostics.h"

namespace longhaul {
namespace {

// Written by handlers, so nothing but sig_atomic_t.
volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t interrupted = 0;
volatile std::sig_atomic_t save_requested = 0;
volatile std::sig_atomic_t continued = 0;

void on_interrupt(int signal) {
  if (interrupted) _exit(128 + SIGINT);
  interrupted = 1;
  stop_requested = signal;
}
void on_stop(int signal) { stop_requested = signal; }
void on_save(int) { save_requested = 1; }
void on_continue(int) { continued = 1; }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a request waits for its loop; it is no reason for a read to fail
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void install_signal_handlers() {
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

int stop_signal() { return stop_requested; }

bool take_save_request() {
  if (!save_requested) return false;
  save_requested = 0;
  return true;
}

bool take_continued() {
  if (!continued) return false;
  continued = 0;
  return true;
}

void request_stop(int signal) { stop_requested = signal; }

void clear_signal_requests() {
  stop_requested = 0;
  interrupted = 0;
  save_requested = 0;
  continued = 0;
}

}  // namespace longhaul
