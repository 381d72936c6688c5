// Worker: a named background thread that runs tasks in order and passes their exceptions to the next caller.
// It is used for work that must not block a step: writing checkpoints, prefetching data.
// docs/design/threads.md lists every use.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace longhaul {

class Worker {
 public:
  // Shown in thread lists, at most 15 characters; its parallel_for is serial.
  explicit Worker(std::string name);
  ~Worker();  // finishes all posted tasks; an exception that nobody fetched is logged
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // If an earlier task has thrown, rethrows that exception and posts nothing.
  void post(std::function<void()> task);
  void wait();  // until the worker is idle; rethrows too
  bool idle() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
