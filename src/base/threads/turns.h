// Turns: two bodies that go on in turns, one at a time. The one whose turn it is says where the other may go on, and stands still until that one says so
// too, or has ended. For what has to wait in the middle of a call that cannot be left and entered again (LibTorch's backward pass): the order is fixed by
// where the bodies pass, never by time, so ranks whose bodies pass at the same places make their calls in the same order.
//
//   Turns turns;
//   turns.run({.first = [&] { …; turns.pass(); … }, .second = [&] { …; turns.pass(); … }});
//
// The first body begins. It runs in the caller's thread, the second in a thread that is kept from run to run and takes over from the caller how many
// compute threads it has, what its memory is for and whether it trains (parallel.h, memory_purpose.h, training_wait.h). A turn sees all that the turns
// before it have written.
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
    std::function<void(Body)> begins{};  // called by the thread of a body whenever its turn begins
  };
  // Until both have ended. What one of them throws ends the other where it passes, and is thrown: the first such exception.
  void run(const Bodies& bodies);

  // Of the body whose turn it is, in any thread that it waits for. Nothing, where the other has ended and outside of run().
  void pass();
  // Likewise, until the other one has ended; the other one passes to nobody meanwhile. Of one of the two.
  void let_end();

 private:
  static Body other(Body body) { return body == kFirst ? kSecond : kFirst; }
  void hand_over(std::unique_lock<std::mutex>& lock);
  void await(Body body, std::unique_lock<std::mutex>& lock);
  void play(Body body);

  std::mutex mutex_;
  std::condition_variable changed_;
  const Bodies* bodies_ = nullptr;  // that run; null: none
  Body turn_ = kFirst;
  bool ended_[2] = {true, true};
  bool away_[2] = {false, false};  // stands still until the other has ended
  std::exception_ptr failure_;
  std::unique_ptr<Worker> worker_;  // of the second body, from the first run on
};

}  // namespace longhaul
