#include "comm/c10d/c10d_group.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/threads/worker.h"
#include "comm/c10d/c10d_calls.h"
#include "comm/single.h"

namespace longhaul::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookForError{100};  // how soon an error of a back end is seen

// c10d adds times to clocks: the longest must not wrap around.
milliseconds time_of(const Call& call, Timeout otherwise) {
  return std::min(call.options.timeout.value_or(otherwise), Timeout(std::chrono::hours(24 * 365)));
}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

const char* words_of(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::TIMEOUT:
      return "a call has not ended in time";
    case c10d::ErrorType::COMM_ERROR:
      return "the connection to another rank is broken, or its process has ended";
    case c10d::ErrorType::REMOTE_ERROR:
      return "another rank has failed";
    case c10d::ErrorType::SUCCESS:
      break;
  }
  return "";
}

}  // namespace

// Its watcher looks at the back ends ten times a second, because a rank waits in no call for them: a stream
// does.
struct C10dGroup::Fate {
  struct Member {
    std::weak_ptr<c10d::Backend> backend;
    std::string group, last_call;
  };
  Maker maker;
  Timeout timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Member> members;
  std::optional<std::string> failed, aborted;  // why
  std::vector<Tell> told;
  bool ending = false, reports_errors = false;
  Worker watcher{"c10d watch"};  // the last member, because it must be destroyed first

  Fate() {
    watcher.post([this] { watch(); });
  }
  ~Fate() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
  }

  void watch() {
    std::unique_lock lock(mutex);
    while (!ending && !failed && !aborted) {
      changed.wait_for(lock, kLookForError);
      lock.unlock();
      look();
      lock.lock();
    }
  }

  // Whether a back end has found an error by itself. Gloo's has none to tell: it throws in wait().
  void look() {
    std::vector<std::pair<std::shared_ptr<c10d::Backend>, Member>> all;
    {
      const std::lock_guard lock(mutex);
      for (const Member& member : members) {
        if (auto backend = member.backend.lock(); backend && reports_errors)
          all.emplace_back(std::move(backend), member);
      }
    }
    for (const auto& [backend, member] : all) {
      const char* const words = words_of(backend->getError());
      if (*words == 0) continue;
      const std::string last = member.last_call.empty() ? "no call" : member.last_call;
      return end(fmt::format("{} in '{}' ({}); the last that this rank has started there: {}", words,
                             member.group, backend->getBackendName(), last),
                 /*by_abort=*/false);
    }
  }

  std::shared_ptr<c10d::Backend> backend(const std::string& group, const std::string& keys, int64_t rank,
                                         int64_t size) {
    std::shared_ptr<c10d::Backend> made = maker(keys, rank, size);
    const std::lock_guard lock(mutex);
    if (members.empty()) reports_errors = reports(*made);
    std::erase_if(members, [](const Member& member) { return member.backend.expired(); });
    members.push_back({made, group, ""});
    return made;
  }

  void started(const std::shared_ptr<c10d::Backend>& backend, const std::string& call) {
    const std::lock_guard lock(mutex);
    for (Member& member : members) {
      if (!member.backend.owner_before(backend) && !backend.owner_before(member.backend))
        member.last_call = call;
    }
  }

  // The first reason counts. The streams that wait in a call of any group are let go, where the back end can.
  void end(const std::string& reason, bool by_abort) {
    std::vector<std::shared_ptr<c10d::Backend>> all;
    std::vector<Tell> tell;
    {
      const std::lock_guard lock(mutex);
      if (failed || aborted) return;
      (by_abort ? aborted : failed) = reason;
      for (const Member& each : members) {
        if (auto backend = each.backend.lock()) all.push_back(std::move(backend));
      }
      tell.swap(told);
    }
    changed.notify_all();
    for (const Tell& each : tell) each(reason);  // the other ranks first: an abort may take its time
    for (const auto& each : all) each->abort();
  }

  void on_failure(Tell tell) {
    std::string reason;
    {
      const std::lock_guard lock(mutex);
      if (!failed && !aborted) {
        told.push_back(std::move(tell));
        return;
      }
      reason = failed ? *failed : *aborted;
    }
    tell(reason);
  }

  [[noreturn]] void refuse(const std::string& call, const std::string& where) {
    const std::lock_guard lock(mutex);
    ErrorFields fields{.code = ExitCode::kCommunication,
                       .what = aborted ? "another rank gave up" : "ranks lost each other",
                       .expected = "all ranks of the group in the same call in time",
                       .found = aborted ? *aborted : failed.value_or("nobody says why"),
                       .where = where + ", " + call};
    if (aborted) throw Aborted(std::move(fields));
    throw Error(std::move(fields));
  }
  bool ended() {
    const std::lock_guard lock(mutex);
    return failed || aborted;
  }

 private:
  static bool reports(c10d::Backend& backend) {
    try {
      backend.getError();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
};

namespace {

template <class Fate>
class C10dWork final : public Work::State {
 public:
  C10dWork(std::shared_ptr<Fate> fate, StartedCalls started, Call call, std::string where)
      : fate_(std::move(fate)),
        started_(std::move(started)),
        call_(std::move(call)),
        label_(label(call_)),
        where_(std::move(where)) {}

  // Without a time, for which a back end of a GPU would hold the host until the call has ended: the stream
  // waits. Its time is in the call's own options, and in those of the back end.
  void wait() override {
    try {
      for (const auto& each : started_.works) each->wait();
    } catch (const std::exception& error) {
      fate_->end(first_line(error), /*by_abort=*/false);
      fate_->refuse(label_, where_);
    }
    if (fate_->ended() &&
        !std::ranges::all_of(started_.works, [](const auto& each) { return each->isSuccess(); }))
      fate_->refuse(label_, where_);
    if (started_.finish) started_.finish();
    started_ = {};
    call_ = {};
  }
  bool done() override {
    return std::ranges::all_of(started_.works, [](const auto& each) { return each->isCompleted(); });
  }

 private:
  std::shared_ptr<Fate> fate_;
  StartedCalls started_;
  Call call_;  // its tensors stay alive
  std::string label_, where_;
};

}  // namespace

std::unique_ptr<Communicator> C10dGroup::make(Maker maker, int64_t rank, int64_t size, Timeout timeout,
                                              const std::string& name) {
  if (size == 1) return std::make_unique<Single>(name);
  auto fate = std::make_shared<Fate>();
  fate->maker = std::move(maker), fate->timeout = timeout;
  return std::unique_ptr<Communicator>(new C10dGroup(std::move(fate), name, name, rank, size));
}

C10dGroup::C10dGroup(std::shared_ptr<Fate> fate, std::string name, std::string keys, int64_t rank,
                     int64_t size)
    : Communicator(std::move(name), rank, size),
      fate_(std::move(fate)),
      keys_(std::move(keys)),
      backend_(fate_->backend(this->name(), keys_, rank, size)) {}

// At a good end the back end ends its connections in order; else it lets go of them, since others may have
// died.
C10dGroup::~C10dGroup() {
  try {
    fate_->ended() || std::uncaught_exceptions() > 0 ? backend_->abort() : backend_->shutdown();
  } catch (const std::exception& error) {
    log_warning("the group '{}' does not end in order: {}", name(), first_line(error));
  }
}

void C10dGroup::abort(const std::string& reason) { fate_->end(reason, /*by_abort=*/true); }

void C10dGroup::require_well() {
  fate_->look();
  if (fate_->ended())
    fate_->refuse("what the device has computed", fmt::format("rank {} of '{}'", rank(), name()));
}

Communicator::Tell C10dGroup::aborter() {
  return [fate = std::weak_ptr(fate_)](const std::string& reason) {
    if (const auto there = fate.lock()) there->end(reason, /*by_abort=*/true);
  };
}

void C10dGroup::on_failure(Tell tell) { fate_->on_failure(std::move(tell)); }

Work C10dGroup::start(Call call) {
  const std::string where = fmt::format("rank {} of '{}'", rank(), name());
  if (fate_->ended()) fate_->refuse(label(call), where);
  try {
    fate_->started(backend_, label(call));
    StartedCalls started = start_call(*backend_, call, rank(), time_of(call, fate_->timeout));
    return Work(std::make_shared<C10dWork<Fate>>(fate_, std::move(started), std::move(call), where));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fate_->end(first_line(error), /*by_abort=*/false);
  }
  fate_->refuse(label(call), where);
}

std::vector<std::unique_ptr<Communicator>> C10dGroup::start_split(Call call) {
  const int64_t split = splits_++;
  std::vector<std::unique_ptr<Communicator>> mine;
  for (const layout::GroupKind& kind : call.kinds) {
    mine.push_back(nullptr);
    for (size_t number = 0; number < kind.groups.size(); ++number) {
      const std::vector<int64_t>& ranks = kind.groups[number];
      const auto own = std::ranges::find(ranks, rank());
      if (own == ranks.end()) continue;
      const std::string name = fmt::format("{} {}", kind.name, number);
      if (ranks.size() == 1)
        mine.back() = std::make_unique<Single>(name);
      else
        mine.back().reset(new C10dGroup(fate_, name, fmt::format("{}/{}/{}", keys_, split, name),
                                        own - ranks.begin(), std::ssize(ranks)));
    }
  }
  return mine;
}

}  // namespace longhaul::comm
