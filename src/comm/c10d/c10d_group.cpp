#include "comm/c10d/c10d_group.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "comm/single.h"

namespace longhaul::comm {
namespace {

using Started = std::vector<c10::intrusive_ptr<c10d::Work>>;

c10d::ReduceOp operation_of(Reduction reduction) { return reduction == Reduction::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM; }

// c10d adds times to clocks: the longest must not wrap around.
std::chrono::milliseconds time_of(const Call& call, Timeout otherwise) {
  return std::min(call.options.timeout.value_or(otherwise), Timeout(std::chrono::hours(24 * 365)));
}

bool even(const std::vector<int64_t>& rows) {
  return std::ranges::all_of(rows, [&](int64_t each) { return each == rows.front(); });
}

// What goes from a rank to itself; the n-th sent is the n-th received.
void deliver_own(const Call& call, int64_t rank) {
  std::deque<Tensor> sent, received;
  for (const Transfer& transfer : call.transfers) {
    if (transfer.peer == rank) (transfer.direction == Direction::kSend ? sent : received).push_back(transfer.tensor);
  }
  LONGHAUL_ASSERT(sent.size() == received.size(), "{}: {} messages to the rank itself, {} from it", label(call), sent.size(),
                  received.size());
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < sent.size(); ++i) received[i].copy_(sent[i]);
}

Started start_exchange(c10d::Backend& backend, const Call& call, int64_t rank) {
  deliver_own(call, rank);
  const bool together = backend.supportsCoalescing();  // else two ranks that both send first would wait for each other on a GPU's stream
  Started started;
  bool any = false;
  for (const Transfer& transfer : call.transfers) {
    if (transfer.peer == rank) continue;
    if (together && !any) backend.startCoalescing();
    any = true;
    std::vector<Tensor> one = {transfer.tensor};
    const int peer = static_cast<int>(transfer.peer);
    auto work = transfer.direction == Direction::kSend ? backend.send(one, peer, /*tag=*/0) : backend.recv(one, peer, /*tag=*/0);
    if (!together) started.push_back(std::move(work));
  }
  if (together && any) started.push_back(backend.endCoalescing());
  return started;
}

Started start_call(c10d::Backend& backend, Call& call, int64_t rank, std::chrono::milliseconds timeout) {
  std::vector<Tensor> one = {call.output};
  switch (call.kind) {
    case CallKind::kAllReduce:
      if (call.output.numel() == 0) return {};
      return {backend.allreduce(one, {.reduceOp = operation_of(call.reduction), .timeout = timeout})};
    case CallKind::kReduceScatter: {
      if (call.input.numel() == 0) return {};
      const c10d::ReduceScatterOptions options{.reduceOp = operation_of(call.reduction), .timeout = timeout};
      if (even(call.input_rows)) return {backend._reduce_scatter_base(call.output, call.input, options)};
      std::vector<std::vector<Tensor>> pieces = {call.input.split_with_sizes(call.input_rows)};
      return {backend.reduce_scatter(one, pieces, options)};
    }
    case CallKind::kAllGather: {
      if (call.output.numel() == 0) return {};
      if (even(call.output_rows)) return {backend._allgather_base(call.output, call.input, {.timeout = timeout})};
      std::vector<std::vector<Tensor>> pieces = {call.output.split_with_sizes(call.output_rows)};
      std::vector<Tensor> input = {call.input};
      return {backend.allgather(pieces, input, {.timeout = timeout})};
    }
    case CallKind::kAllToAll:
      return {backend.alltoall_base(call.output, call.input, call.output_rows, call.input_rows, {.timeout = timeout})};
    case CallKind::kBroadcast:
      if (call.output.numel() == 0) return {};
      return {backend.broadcast(one, {.rootRank = call.root, .timeout = timeout})};
    case CallKind::kExchange:
      return start_exchange(backend, call, rank);
    case CallKind::kBarrier:
      return {backend.barrier({.timeout = timeout})};
    case CallKind::kSplit:
      break;
  }
  LONGHAUL_ASSERT(false, "{} is no call that moves tensors", label(call));
}

std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace

struct C10dGroup::Fate {
  Maker maker;
  Timeout timeout;
  std::mutex mutex;
  std::vector<std::weak_ptr<c10d::Backend>> backends;
  std::optional<std::string> failed, aborted;  // why

  std::shared_ptr<c10d::Backend> backend(const std::string& keys, int64_t rank, int64_t size) {
    std::shared_ptr<c10d::Backend> made = maker(keys, rank, size);
    const std::lock_guard lock(mutex);
    backends.push_back(made);
    return made;
  }

  // The first reason counts. Whoever waits in a call of any group is let go, where the back end can.
  void end(const std::string& reason, bool by_abort) {
    std::vector<std::shared_ptr<c10d::Backend>> all;
    {
      const std::lock_guard lock(mutex);
      if (failed || aborted) return;
      (by_abort ? aborted : failed) = reason;
      for (const auto& each : backends) {
        if (auto backend = each.lock()) all.push_back(std::move(backend));
      }
    }
    for (const auto& each : all) each->abort();
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
};

namespace {

template <class Fate>
class C10dWork final : public Work::State {
 public:
  C10dWork(std::shared_ptr<Fate> fate, Started started, Call call, std::string where, std::chrono::milliseconds timeout)
      : fate_(std::move(fate)),
        started_(std::move(started)),
        call_(std::move(call)),
        label_(label(call_)),
        where_(std::move(where)),
        timeout_(timeout) {}
  void wait() override {
    try {
      for (const auto& each : started_) each->wait(timeout_);
    } catch (const std::exception& error) {
      fate_->end(first_line(error), /*by_abort=*/false);
      fate_->refuse(label_, where_);
    }
    started_.clear();
    call_ = {};
  }
  bool done() override {
    return std::ranges::all_of(started_, [](const auto& each) { return each->isCompleted(); });
  }

 private:
  std::shared_ptr<Fate> fate_;
  Started started_;
  Call call_;  // its tensors stay alive
  std::string label_, where_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<Communicator> C10dGroup::make(Maker maker, int64_t rank, int64_t size, Timeout timeout, const std::string& name) {
  if (size == 1) return std::make_unique<Single>(name);
  auto fate = std::make_shared<Fate>();
  fate->maker = std::move(maker), fate->timeout = timeout;
  return std::unique_ptr<Communicator>(new C10dGroup(std::move(fate), name, name, rank, size));
}

C10dGroup::C10dGroup(std::shared_ptr<Fate> fate, std::string name, std::string keys, int64_t rank, int64_t size)
    : Communicator(std::move(name), rank, size),
      fate_(std::move(fate)),
      keys_(std::move(keys)),
      backend_(fate_->backend(keys_, rank, size)) {}
C10dGroup::~C10dGroup() = default;

void C10dGroup::abort(const std::string& reason) { fate_->end(reason, /*by_abort=*/true); }

Work C10dGroup::start(Call call) {
  const std::string where = fmt::format("rank {} of '{}'", rank(), name());
  if (fate_->ended()) fate_->refuse(label(call), where);
  const std::chrono::milliseconds timeout = time_of(call, fate_->timeout);
  try {
    Started started = start_call(*backend_, call, rank(), timeout);
    return Work(std::make_shared<C10dWork<Fate>>(fate_, std::move(started), std::move(call), where, timeout));
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
        mine.back().reset(new C10dGroup(fate_, name, fmt::format("{}/{}/{}", keys_, split, name), own - ranks.begin(), std::ssize(ranks)));
    }
  }
  return mine;
}

}  // namespace longhaul::comm
