#include "base/threads/worker.h"

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/threads/parallel.h"

namespace longhaul {

struct Worker::State {
  std::string name;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  std::exception_ptr error;  // the first one that nobody has fetched yet
  bool running = false;      // a task is being run
  bool ending = false;
  std::thread thread;

  void loop() {
    set_threads(1);  // the compute threads belong to the caller: a parallel_for in here runs serially
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ending || !tasks.empty(); });
      if (tasks.empty()) return;
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      running = true;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        task();
      } catch (...) {
        thrown = std::current_exception();
      }
      task = nullptr;  // what the task holds is freed before anyone is told that it ended
      lock.lock();
      running = false;
      if (thrown && !error) error = thrown;
      changed.notify_all();
    }
  }

  // With the mutex held.
  void rethrow() {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
};

Worker::Worker(std::string name) : state_(std::make_unique<State>()) {
  LONGHAUL_ASSERT(name.size() <= 15, "{} is longer than 15 characters", name);
  state_->name = std::move(name);
  // Signals are for the main thread: the new thread inherits a mask that blocks all of them except the one
  // that asks for its stack.
  sigset_t all, before;
  sigfillset(&all);
  // A signal that a thread causes itself is no request: its handler reports where it happened
  // (base/process/diagnostics.h).
  for (const int crash : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigdelset(&all, crash);
  sigdelset(&all, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    state_->thread = std::thread([state = state_.get()] { state->loop(); });
  } catch (const std::system_error& failure) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error({.code = ExitCode::kOutOfMemory,
                 .what = "cannot start the thread " + state_->name,
                 .found = failure.what(),
                 .hint = "raise the limit of threads: ulimit -u"});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(state_->thread.native_handle(), state_->name.c_str());
}

Worker::~Worker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
  if (!state_->error) return;
  try {
    std::rethrow_exception(state_->error);
  } catch (const std::exception& error) {
    log_error("the thread {} ended with an error: {}", state_->name, error.what());
  } catch (...) {
    log_error("the thread {} ended with an unknown error", state_->name);
  }
}

void Worker::post(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  state_->rethrow();
  state_->tasks.push_back(std::move(task));
  state_->changed.notify_all();
}

void Worker::wait() {
  LONGHAUL_ASSERT(std::this_thread::get_id() != state_->thread.get_id(), "the thread {} waits for itself",
                  state_->name);
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->tasks.empty() && !state_->running; });
  state_->rethrow();
}

bool Worker::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->tasks.empty() && !state_->running;
}

}  // namespace longhaul
