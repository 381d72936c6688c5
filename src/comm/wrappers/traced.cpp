#include "comm/wrappers/traced.h"

#include <exception>
#include <utility>

#include "base/process/training_wait.h"

namespace longhaul::comm {
namespace {

// body(), and what became of it in the log: `ends` when it returns, or nothing yet.
template <class Body>
auto noted(CallLog& log, int64_t number, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    log.ended(number, error.what());
    throw;
  }
}

class TracedWork final : public Work::State {
 public:
  TracedWork(Work inner, std::shared_ptr<CallLog> log, int64_t number)
      : inner_(std::move(inner)), log_(std::move(log)), number_(number) {}
  void wait() override {
    if (ended_) return inner_.wait();
    const TrainingWait waiting;
    log_->awaited(number_);
    end();
  }
  bool done() override {
    if (!inner_.done()) return false;
    if (!ended_ && !failed_) {
      try {
        end();
      } catch (const std::exception&) {
        failed_ = true;  // wait() throws it again
      }
    }
    return true;
  }
  int64_t ended_ns() override { return inner_.ended_ns(); }

 private:
  void end() {
    noted(*log_, number_, [this] { inner_.wait(); });
    log_->ended(number_, "", inner_.ended_ns());
    ended_ = true;
  }

  Work inner_;
  std::shared_ptr<CallLog> log_;
  int64_t number_;
  bool ended_ = false, failed_ = false;
};

}  // namespace

Traced::Traced(std::shared_ptr<Communicator> inner, std::shared_ptr<CallLog> log)
    : Wrapper(std::move(inner)), log_(std::move(log)), group_(log_->add_group(place())) {}
Traced::Traced(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place,
               std::shared_ptr<CallLog> log)
    : Wrapper(std::move(inner), std::move(place)),
      log_(std::move(log)),
      group_(log_->add_group(this->place())) {}

std::unique_ptr<Communicator> Traced::around(std::shared_ptr<Communicator> group,
                                             std::shared_ptr<const GroupPlace> place) const {
  return std::unique_ptr<Communicator>(new Traced(std::move(group), std::move(place), log_));
}

Work Traced::start(Call call) {
  const int64_t number = log_->entered(group_, call, *this);
  Work work = noted(*log_, number, [&] { return inner().start(std::move(call)); });
  log_->started(number);
  return Work(std::make_shared<TracedWork>(std::move(work), log_, number));
}

std::vector<std::unique_ptr<Communicator>> Traced::split_inner(Call call) {
  const int64_t number = log_->entered(group_, call, *this);
  log_->started(number);
  log_->awaited(number);
  auto groups = noted(*log_, number, [&] { return inner().start_split(std::move(call)); });
  log_->ended(number, "");
  return groups;
}

}  // namespace longhaul::comm
