// Work: a call that was started and may still be in progress. The rank may compute between start and wait;
// the tensors of the call belong to the call until wait() has returned. A Work may be dropped: the call
// continues (its tensors are kept alive), and its errors appear only at the next call.
//
// On the CPU, wait() returns when the results are there. On a GPU it makes the thread's current stream wait
// for them and returns at once. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace longhaul::comm {

class [[nodiscard]] Work {
 public:
  // The implementation, from a back end or a wrapper. Both functions may be called again after the end.
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
    virtual bool done() = 0;
    // When the call finished, independent of when it was checked; 0: the back end does not know.
    virtual int64_t ended_ns() { return 0; }
  };

  Work() = default;  // nothing to wait for
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  void wait() {  // throws the error of a failed call
    if (!state_) return;
    state_->wait();
    ended_ns_ = state_->ended_ns();
    state_.reset();
  }
  // whether wait() would return (or throw) at once; never blocks
  bool done() { return !state_ || state_->done(); }
  // After wait(): monotonic_ns() of the end, if the back end knows it, else 0.
  int64_t ended_ns() const { return ended_ns_; }

 private:
  std::shared_ptr<State> state_;
  int64_t ended_ns_ = 0;
};

}  // namespace longhaul::comm
