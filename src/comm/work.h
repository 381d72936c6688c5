// Work: a call that was started and may still be going on. The rank computes between start and wait; the tensors of the call belong to it
// until wait() has returned. A Work may be dropped: the call goes on (its tensors are kept alive), only its errors are learned at the next one.
//
// On the CPU wait() returns when the results are there. On a GPU it makes the thread's current stream wait for them and returns at once.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace longhaul::comm {

class [[nodiscard]] Work {
 public:
  // What a back end or a wrapper gives. Both functions may be called again after the end.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
    virtual bool done() = 0;
    virtual int64_t ended_ns() { return 0; }  // when it was done, whoever looked when; 0: the back end does not know
  };

  Work() = default;  // nothing to wait for
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  void wait() {  // throws what the call failed with
    if (!state_) return;
    state_->wait();
    ended_ns_ = state_->ended_ns();
    state_.reset();
  }
  bool done() { return !state_ || state_->done(); }  // whether wait() would return (or throw) at once; never blocks
  int64_t ended_ns() const { return ended_ns_; }     // behind wait(): monotonic_ns() of the end, where the back end knows it, else 0

 private:
  std::shared_ptr<State> state_;
  int64_t ended_ns_ = 0;
};

}  // namespace longhaul::comm
