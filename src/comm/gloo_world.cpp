#include "comm/gloo_world.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/communicator.h"

namespace longhaul::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kTick{20};          // how exact deadlines are
constexpr milliseconds kLook{100};         // how soon another rank's failure is seen
constexpr milliseconds kExplanation{700};  // for the reason of a broken connection to appear
constexpr milliseconds kFarewell{3000};    // for the others to read why, where one of them may be dead
constexpr const char* kFailureKey = "failure";

Deadline now() { return std::chrono::steady_clock::now(); }
Deadline after(Deadline start, milliseconds time) { return start == Deadline::max() ? start : start + time; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string to_text(const Failure& failure) {
  const ErrorFields& fields = failure.fields;
  const nlohmann::json json = {{"code", static_cast<int>(fields.code)},
                               {"what", fields.what},
                               {"expected", fields.expected},
                               {"found", fields.found},
                               {"hint", fields.hint},
                               {"aborted", failure.aborted}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Failure from_text(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.fields = {.code = static_cast<ExitCode>(json.at("code").get<int>()),
                     .what = json.at("what"),
                     .expected = json.at("expected"),
                     .found = json.at("found"),
                     .hint = json.at("hint")},
          .aborted = json.at("aborted")};
}

GlooWorld::GlooWorld(std::unique_ptr<Wire> wire, int64_t rank, int64_t size, Timeout timeout)
    : wire_(std::move(wire)), rank_(rank), size_(size), timeout_(timeout) {
  watcher_.post([this] { watch(); });
}

GlooWorld::~GlooWorld() {
  linger();
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  watcher_.wait();
  left_behind_.clear();
}

void GlooWorld::watch() {
  Deadline next_look = now();
  Lock lock(mutex_);
  while (!ending_) {
    stop_overdue();
    if (!failure_ && now() >= next_look) {
      lock.unlock();
      look_at_store();
      next_look = now() + kLook;
      lock.lock();
    }
    changed_.wait_for(lock, kTick);
  }
}

// With the lock held.
void GlooWorld::stop_overdue() {
  const Deadline time = now();
  for (Waiting& one : waiting_) {
    const Deadline limit = std::min(one.patience.deadline, after(failed_at_, one.patience.after_failure));
    if (one.stopped || time < std::max(limit, one.earliest)) continue;
    one.stopped = true;
    one.transmission->stop();
  }
}

void GlooWorld::look_at_store() {
  try {
    if (wire_->has(kFailureKey)) adopt(from_text(wire_->get(kFailureKey)));
  } catch (const std::exception& error) {
    adopt({.fields = {.code = ExitCode::kCommunication,
                      .what = "the store of rank 0 does not answer",
                      .expected = fmt::format("rank 0 of {}, which holds it, to be there", size_),
                      .found = first_line(error.what())},
           .aborted = true});
  }
}

void GlooWorld::adopt(Failure failure) {
  {
    const Lock lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    failed_at_ = now();
  }
  changed_.notify_all();
  try {
    wire_->add("learned", 1);
  } catch (const std::exception&) {
    // The store has gone with rank 0, which was the failure or learned of it.
  }
}

void GlooWorld::fail(Failure failure) {
  if (this->failure()) return;
  try {
    failure = from_text(wire_->set_once(kFailureKey, to_text(failure)));
  } catch (const std::exception&) {
    // Without a store this rank's own words stand.
  }
  adopt(std::move(failure));
}

std::optional<Failure> GlooWorld::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

// Whoever fails says so in the store before he goes: only he who says nothing has died.
void GlooWorld::broken(int64_t peer, const std::string& call, const std::string& reason) {
  for (const Deadline end = now() + kExplanation; now() < end && !failure(); pause(kTick)) look_at_store();
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("rank {} has died", peer),
                   .expected = fmt::format("all {} ranks to stay until the end; rank {} waited for it in {}", size_, rank_, call),
                   .found = "its connection was closed, and it gave no reason: " + first_line(reason)},
        .aborted = true});
}

GlooWorld::End GlooWorld::wait(Transmission& transmission, const Patience& patience, int64_t peer, const std::string& call) {
  std::list<Waiting>::iterator place;
  {
    const Lock lock(mutex_);
    place = waiting_.insert(waiting_.end(), {&transmission, patience, now() + milliseconds(5)});
  }
  bool done = false;
  std::string reason;
  try {
    done = transmission.wait();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  bool stopped = false;
  {
    const Lock lock(mutex_);
    stopped = place->stopped;
    waiting_.erase(place);
  }
  if (done) return End::kDone;
  if (!stopped) broken(peer, call, reason);
  return failure() ? End::kFailed : End::kLate;
}

int64_t GlooWorld::next_group() const {
  const Lock lock(mutex_);
  return next_group_;
}

void GlooWorld::reserve_groups(int64_t next) {
  const Lock lock(mutex_);
  next_group_ = std::max(next_group_, next);
}

void GlooWorld::leave_behind(std::shared_ptr<std::vector<std::byte>> bytes, std::unique_ptr<Transmission> transmission) {
  const Lock lock(mutex_);
  left_behind_.emplace_back(std::move(bytes), std::move(transmission));
}

void GlooWorld::pause(milliseconds time) {
  Lock lock(mutex_);
  changed_.wait_for(lock, time);
}

bool GlooWorld::store_says(const char* counter, int64_t count) {
  try {
    return wire_->add(counter, 0) >= count;
  } catch (const std::exception&) {
    return true;  // nobody is left to wait for
  }
}

void GlooWorld::linger() {
  try {
    if (!failure()) wire_->add("left", 1);
  } catch (const std::exception&) {
    return;
  }
  while (!failure() && !store_says("left", size_)) pause(milliseconds(2));
  // Rank 0 takes the store with it: the others first.
  const char* counter = failure() ? "learned" : "gone";
  if (rank_ != 0) {
    try {
      if (!failure()) wire_->add("gone", 1);
    } catch (const std::exception&) {
      // It has gone already: it waits for so long only.
    }
    return;
  }
  const int64_t others = failure() ? size_ : size_ - 1;
  for (const Deadline end = now() + kFarewell; now() < end && !store_says(counter, others);) {
    pause(milliseconds(2));
  }
}

}  // namespace longhaul::comm
