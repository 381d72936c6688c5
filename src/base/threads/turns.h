// Turns: two functions that run alternately, one at a time. The one that runs calls pass() where the other
// may go on, and then waits until that one passes too, or has ended. It is for code that must pause in the
// middle of a call that cannot be left and re-entered (LibTorch's backward pass). The order depends only on
// the places at which the functions pass, never on time, so ranks whose functions pass at the same places
// make their calls in the same order.
//
//   Turns turns;
//   turns.run({.first = [&] { …; turns.pass(); … }, .second = [&] { …; turns.pass(); … }});
//
// The first function begins. It runs in the caller's thread; the second runs in a thread that is kept between
// runs and that takes over the caller's number of compute threads, memory purpose and training flag
// (parallel.h, memory_purpose.h, training_wait.h). Each turn sees everything that earlier turns have written.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "base/threads/worker.h"

namespace longhaul {

class Turns {
 public:
  enum Body : uint8_t { kFirst, kSecond };
  struct Bodies {
    std::function<void()> first, second;
    std::function<void(Body)> begins{};  // called in the thread of a function whenever its turn begins
  };
  // Returns when both have ended. If one throws, the other is ended at its next pass(), and the first
  // exception is rethrown.
  void run(const Bodies& bodies);

  // Called by the running function, in any thread for which it waits. Does nothing if the other has ended,
  // and outside of run().
  void pass();
  // Like pass(), but waits until the other has ended, which passes to nobody meanwhile. Only one of the two
  // may call it.
  void let_end();

 private:
  static Body other(Body body) { return body == kFirst ? kSecond : kFirst; }
  void hand_over(std::unique_lock<std::mutex>& lock);
  void await(Body body, std::unique_lock<std::mutex>& lock);
  void play(Body body);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Bodies* bodies_ = nullptr;  // those that run; null: none
  Body turn_ = kFirst;
  bool ended_[2] = {true, true};
  bool away_[2] = {false, false};  // waits until the other has ended
  std::exception_ptr failure_;
  std::unique_ptr<Worker> worker_;  // for the second function, from the first run on
};

}  // namespace longhaul
