// Worker: a named background thread that runs tasks in order and hands their exceptions over to the next caller.
// Used for what must not block a step: writing checkpoints, prefetching data. docs/design/threads.md lists every use.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace longhaul {

class Worker {
 public:
  explicit Worker(std::string name);  // shown in thread lists, at most 15 characters; its parallel_for is serial
  ~Worker();                          // finishes what was posted; an exception nobody fetched is logged
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> task);  // or, instead of posting, rethrows the first exception of an earlier task
  void wait();                            // until idle; rethrows likewise
  bool idle() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
