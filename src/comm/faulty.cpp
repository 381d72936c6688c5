#include "comm/faulty.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace longhaul::comm {
namespace {

void flip(const Tensor& tensor, int64_t bit) {
  LONGHAUL_ASSERT(bit >= 0 && bit / 8 < static_cast<int64_t>(tensor.nbytes()), "bit {} of {} bytes", bit, tensor.nbytes());
  auto* const bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr());
  bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << (bit % 8)));
}

void stay_away(Timeout time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable().wait_for(lock, time, [] { return false; });
}

class CorruptedWork final : public Work::State {
 public:
  CorruptedWork(Work inner, Tensor result, int64_t bit) : inner_(std::move(inner)), result_(std::move(result)), bit_(bit) {}
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

Work Faulty::start(Call call) {
  const auto fault = std::ranges::find_if(faults_, [&](const Fault& each) {
    return each.group == place().path && each.call == call.sequence && each.exchange == (call.kind == CallKind::kExchange);
  });
  if (fault == faults_.end()) return inner().start(std::move(call));
  switch (fault->kind) {
    case Fault::Kind::kThrow:
      throw Error({.code = ExitCode::kCommunication,
                   .what = "a planned fault",
                   .where = fmt::format("rank {} of '{}', {}", rank(), name(), label(call))});
    case Fault::Kind::kAway:
      stay_away(fault->away);
      return inner().start(std::move(call));
    case Fault::Kind::kCorrupt:
      break;
  }
  const std::vector<Tensor> written = written_by(call, rank());
  LONGHAUL_ASSERT(!written.empty(), "{} gives rank {} nothing", label(call), rank());
  return Work(std::make_shared<CorruptedWork>(inner().start(std::move(call)), written[0], fault->bit));
}

std::unique_ptr<Communicator> Faulty::around(std::shared_ptr<Communicator> group, std::shared_ptr<const GroupPlace> place) const {
  return std::unique_ptr<Communicator>(new Faulty(std::move(group), std::move(place), faults_));
}

}  // namespace longhaul::comm
