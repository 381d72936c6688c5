#include "train/saving/state_keeper.h"

#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/process/signals.h"

namespace longhaul::train {
namespace {

constexpr auto kUpdate = std::chrono::seconds(1);  // that one takes at most, of those worth waiting for

}  // namespace

StateKeeper::StateKeeper(std::function<void(const WholeState&)> write) : write_(std::move(write)) {
  worker_.post([this] { answer(); });
}

StateKeeper::~StateKeeper() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_for_leave_request();
}

void StateKeeper::whole(WholeState state) {
  const std::lock_guard lock(mutex_);
  whole_ = std::move(state);
  changed_.notify_all();
}

void StateKeeper::changes() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !asked_; });  // what is being left must stay as it is
  whole_.reset();
}

bool StateKeeper::write_once() {
  if (written_ || !whole_) return written_;
  write_(*whole_);
  return written_ = true;
}

void StateKeeper::leave() {
  const std::lock_guard lock(mutex_);
  try {
    write_once();
  } catch (const std::exception& error) {
    log_warning("this rank's state could not be left in memory: {}", error.what());
  }
}

void StateKeeper::answer() {
  wait_for_leave_request();
  std::unique_lock lock(mutex_);
  if (over_) return;
  changed_.wait_for(lock, kUpdate, [&] { return whole_.has_value(); });
  asked_ = true;
  try {
    write_once();
  } catch (const std::exception& error) {
    log_warning("this rank's state could not be left in memory: {}", error.what());
  }
  end_at_once(static_cast<int>(ExitCode::kPreemptedNotSaved));
}

}  // namespace longhaul::train
