#include "comm/gloo/gloo_world.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/communicator.h"

namespace longhaul::comm {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kTick{20};             // how exact deadlines are
constexpr milliseconds kLookForFailure{100};  // how soon another rank's failure is seen
constexpr milliseconds kExplanation{700};     // for the reason of a broken connection to appear
constexpr milliseconds kAnswer{2000};         // for the store of a rank 0 that goes on to answer
constexpr milliseconds kFarewell{3000};       // for the others to read why, where one of them may be dead
constexpr const char* kFailureKey = "failure";

Deadline now() { return std::chrono::steady_clock::now(); }
Deadline after(Deadline start, milliseconds time) {
  return start == Deadline::max() || time == kNoTimeout ? Deadline::max() : start + time;
}

template <class Answer>
bool is_there(const std::future<Answer>& answer, milliseconds patience) {
  return answer.wait_for(patience) == std::future_status::ready;
}

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
    : wire_(std::move(wire)), rank_(rank), size_(size), timeout_(timeout), store_(wire_) {
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

milliseconds pause_before_asking(int64_t n, int64_t ranks) {
  const int64_t longest = std::max<int64_t>(kLookForFailure.count(), ranks);
  return milliseconds(std::min(longest, int64_t{2} << std::min<int64_t>(n, 32)));
}

// A store that answers nothing for as long as a call may take is a failure too, of which ranks hear that wait
// in no call. It is given a moment more, for this process may have been stopped meanwhile itself.
void GlooWorld::watch() {
  const milliseconds between = pause_before_asking(INT64_MAX, size_);
  Deadline asked = now(), given_up = Deadline::max();
  std::future<std::optional<Failure>> answer = ask_for_failure();
  Lock lock(mutex_);
  while (!ending_) {
    stop_overdue();
    std::optional<Failure> found;
    if (answer.valid() && is_there(answer, milliseconds(0))) found = failure_of(answer);
    const bool silent = answer.valid() && !failure_ && now() >= after(asked, timeout_);
    given_up = silent ? std::min(given_up, now() + kAnswer) : Deadline::max();
    if (now() >= given_up) found = silent_store();
    if (!answer.valid() && !failure_ && now() >= asked + between) asked = now(), answer = ask_for_failure();
    if (found) {
      lock.unlock();
      adopt(std::move(*found));
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

std::future<std::optional<Failure>> GlooWorld::ask_for_failure() {
  return store_.ask([](Wire& wire) -> std::optional<Failure> {
    if (!wire.has(kFailureKey)) return std::nullopt;
    return from_text(wire.get(kFailureKey));
  });
}

std::optional<Failure> GlooWorld::failure_of(std::future<std::optional<Failure>>& answer) const {
  try {
    return answer.get();
  } catch (const std::exception& error) {
    return Failure{.fields = {.code = ExitCode::kCommunication,
                              .what = "the store of rank 0 does not answer",
                              .expected = fmt::format("rank 0 of {}, which holds it, to be there", size_),
                              .found = first_line(error.what())},
                   .aborted = true};
  }
}

Failure GlooWorld::silent_store() const {
  return {
      .fields =
          {.code = ExitCode::kCommunication,
           .what = "the store of rank 0 does not answer",
           .expected =
               fmt::format("rank 0 of {}, which holds it, to answer within {} ms", size_, timeout_.count()),
           .found = "no answer, and no broken connection: rank 0, its machine or the way there stands still"},
      .aborted = true};
}

void GlooWorld::adopt(Failure failure) {
  std::vector<std::function<void(const Failure&)>> told;
  {
    const Lock lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    failed_at_ = now();
    told.swap(told_);
  }
  changed_.notify_all();
  for (const auto& tell : told) tell(failure);
  // Or the store has gone with rank 0, which was the failure or learned of it.
  store_.ask([](Wire& wire) { return wire.add("learned", 1); });
}

void GlooWorld::fail(Failure failure) {
  if (this->failure()) return;
  auto first = store_.ask([text = to_text(failure)](Wire& wire) { return wire.set_once(kFailureKey, text); });
  try {
    if (is_there(first, kAnswer)) failure = from_text(first.get());
  } catch (const std::exception&) {
    // Without a store this rank's own words stand.
  }
  adopt(std::move(failure));
}

std::optional<Failure> GlooWorld::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

void GlooWorld::on_failure(std::function<void(const Failure&)> tell) {
  {
    const Lock lock(mutex_);
    if (!failure_) {
      told_.push_back(std::move(tell));
      return;
    }
  }
  tell(*failure());
}

// Whoever fails says so in the store before he goes: only he who says nothing has died.
void GlooWorld::broken(int64_t peer, const std::string& call, const std::string& reason) {
  bool answers = true;
  const Deadline end = now() + kExplanation;
  for (int64_t n = 3; answers && now() < end && !failure(); pause(pause_before_asking(n++, size_))) {
    auto answer = ask_for_failure();
    answers = is_there(answer, kAnswer);
    if (!answers) break;
    if (std::optional<Failure> found = failure_of(answer)) return adopt(std::move(*found));
  }
  const char* const silence =
      answers ? "" : "; the store of rank 0 does not answer either, so what stands still may be rank 0";
  fail({.fields = {.code = ExitCode::kCommunication,
                   .what = fmt::format("rank {} has died", peer),
                   .expected = fmt::format("all {} ranks to stay until the end; rank {} waited for it in {}",
                                           size_, rank_, call),
                   .found = fmt::format("its connection was closed, and it gave no reason: {}{}",
                                        first_line(reason), silence)},
        .aborted = true});
}

GlooWorld::End GlooWorld::wait(Transmission& transmission, const Patience& patience, int64_t peer,
                               const std::string& call) {
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

void GlooWorld::leave_behind(std::shared_ptr<std::vector<std::byte>> bytes,
                             std::unique_ptr<Transmission> transmission) {
  const Lock lock(mutex_);
  left_behind_.emplace_back(std::move(bytes), std::move(transmission));
}

void GlooWorld::pause(milliseconds time) {
  Lock lock(mutex_);
  changed_.wait_for(lock, time);
}

bool GlooWorld::store_says(const char* counter, int64_t count) {
  auto answer = store_.ask([counter](Wire& wire) { return wire.add(counter, 0); });
  try {
    return is_there(answer, kAnswer) && answer.get() >= count;
  } catch (const std::exception&) {
    return true;  // nobody is left to wait for
  }
}

// False: nobody is left to tell.
bool GlooWorld::tell_store(const char* counter) {
  auto answer = store_.ask([counter](Wire& wire) { return wire.add(counter, 1); });
  try {
    if (is_there(answer, kAnswer)) answer.get();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// A store that stands still is a failure in the end (watch), and then nobody is waited for.
void GlooWorld::linger() {
  if (!failure() && !tell_store("left")) return;
  for (int64_t n = 0; !failure() && !store_says("left", size_);) pause(pause_before_asking(n++, size_));
  // Rank 0 takes the store with it: the others first.
  const char* counter = failure() ? "learned" : "gone";
  if (rank_ != 0) {
    if (!failure()) tell_store("gone");
    return;
  }
  const int64_t others = failure() ? size_ : size_ - 1;
  int64_t n = 0;
  for (const Deadline end = now() + kFarewell; now() < end && !store_says(counter, others);)
    pause(pause_before_asking(n++, size_));
}

}  // namespace longhaul::comm
