#include "base/threads/turns.h"

#include <utility>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "base/process/training_wait.h"
#include "base/threads/parallel.h"

namespace longhaul {
namespace {

// Ends a function whose partner has failed; nobody sees it.
struct GivenUp final : std::exception {
  const char* what() const noexcept override { return "the body that takes turns with this one has failed"; }
};

}  // namespace

void Turns::run(const Bodies& bodies) {
  LONGHAUL_ASSERT(bodies_ == nullptr, "turns inside of turns");
  if (worker_ == nullptr) worker_ = std::make_unique<Worker>("in turns");
  bodies_ = &bodies;
  turn_ = kFirst;
  ended_[kFirst] = ended_[kSecond] = away_[kFirst] = away_[kSecond] = false;
  worker_->post([this, compute_threads = threads(), purpose = MemoryPurposeScope::current(),
                 trains = TrainingThread::current()] {
    set_threads(compute_threads);
    const MemoryPurposeScope memory(purpose);
    const TrainingThread training(trains);
    play(kSecond);
  });
  play(kFirst);
  worker_->wait();
  bodies_ = nullptr;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Turns::pass() {
  std::unique_lock lock(mutex_);
  if (!ended_[other(turn_)] && !away_[other(turn_)]) hand_over(lock);
}

void Turns::let_end() {
  std::unique_lock lock(mutex_);
  const Body own = turn_;
  if (ended_[other(own)]) return;
  LONGHAUL_ASSERT(!away_[other(own)], "two bodies that wait for each other's end");
  away_[own] = true;
  hand_over(lock);
}

void Turns::hand_over(std::unique_lock<std::mutex>& lock) {
  const Body own = turn_;
  turn_ = other(own);
  changed_.notify_all();
  await(own, lock);
}

void Turns::await(Body body, std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return turn_ == body; });
  if (failure_) throw GivenUp();
  if (bodies_->begins) bodies_->begins(body);
}

void Turns::play(Body body) {
  std::exception_ptr thrown;
  try {
    {
      std::unique_lock lock(mutex_);
      await(body, lock);
    }
    (body == kFirst ? bodies_->first : bodies_->second)();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure_ == nullptr) failure_ = thrown;
  ended_[body] = true;
  turn_ = other(body);
  changed_.notify_all();
}

}  // namespace longhaul
