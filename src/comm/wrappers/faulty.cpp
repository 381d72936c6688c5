#include "comm/wrappers/faulty.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace longhaul::comm {
namespace {

void flip(const Tensor& tensor, int64_t bit) {
  LONGHAUL_ASSERT(bit >= 0 && bit / 8 < static_cast<int64_t>(tensor.nbytes()), "bit {} of {} bytes", bit,
                  tensor.nbytes());
  auto* const bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr());
  bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
}

class CorruptedWork final : public Work::State {
 public:
  CorruptedWork(Work inner, Tensor result, int64_t bit)
      : inner_(std::move(inner)), result_(std::move(result)), bit_(bit) {}
  void wait() override {
    inner_.wait();
    if (result_.defined()) flip(result_, bit_);
    result_ = Tensor();
  }
  bool done() override { return inner_.done(); }

 private:
  Work inner_;
  Tensor result_;
  int64_t bit_;
};

}  // namespace

struct Faulty::Patience {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  // Whether abort() ended it.
  bool wait_for(Timeout time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] { return over; });
  }
};

Faulty::Faulty(std::shared_ptr<Communicator> inner, std::vector<Fault> faults)
    : Wrapper(std::move(inner)), faults_(std::move(faults)), patience_(std::make_shared<Patience>()) {}

void Faulty::abort(const std::string& reason) {
  Wrapper::abort(reason);
  {
    const std::lock_guard lock(patience_->mutex);
    patience_->over = true;
  }
  patience_->changed.notify_all();
}

const Fault* Faulty::planned(const Call& call) const {
  const auto fault = std::ranges::find_if(faults_, [&](const Fault& each) {
    return each.group == place().path && each.call == call.sequence &&
           each.exchange == (call.kind == CallKind::kExchange);
  });
  return fault == faults_.end() ? nullptr : &*fault;
}

// Before the call; throws what is instead of it.
void Faulty::happen(const Fault& fault, const Call& call) const {
  constexpr Timeout kForever = std::chrono::hours(24);
  const auto fail = [&](const char* what) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = what,
                 .where = fmt::format("rank {} of '{}', {}", rank(), name(), label(call))});
  };
  if (fault.kind == Fault::Kind::kThrow) fail("a planned fault");
  if (fault.kind == Fault::Kind::kAway) patience_->wait_for(fault.away);
  if (fault.kind == Fault::Kind::kHang) {
    patience_->wait_for(kForever);
    fail("the end of a planned hang");
  }
}

Work Faulty::start(Call call) {
  const Fault* const fault = planned(call);
  if (fault == nullptr) return inner().start(std::move(call));
  happen(*fault, call);
  if (fault->kind != Fault::Kind::kCorrupt) return inner().start(std::move(call));
  const std::vector<Tensor> written = written_by(call, rank());
  LONGHAUL_ASSERT(!written.empty(), "{} gives rank {} nothing", label(call), rank());
  return Work(std::make_shared<CorruptedWork>(inner().start(std::move(call)), written[0], fault->bit));
}

std::vector<std::unique_ptr<Communicator>> Faulty::split_inner(Call call) {
  if (const Fault* const fault = planned(call)) happen(*fault, call);
  return Wrapper::split_inner(std::move(call));
}

std::unique_ptr<Communicator> Faulty::around(std::shared_ptr<Communicator> group,
                                             std::shared_ptr<const GroupPlace> place) const {
  return std::unique_ptr<Communicator>(new Faulty(std::move(group), std::move(place), faults_, patience_));
}

}  // namespace longhaul::comm
