// A communicator that counts what a rank sends, and says how long it would take: time here is a number that
// only links and what a test computes move on. A call of floats occupies its group's link from its start, or
// the end of the call before, for one unit a row sent to another rank; wait() moves the clock to the call's
// end where that lies ahead. What overlaps costs the longer of both, to the digit.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::parallel::testing {

struct Watch {  // of one rank
  double now = 0;
  std::map<std::string, int64_t> bytes;  // sent to other ranks, by the name of the call
};

// Rows that rank `rank` sends to others.
inline int64_t rows_sent(const comm::Call& call, int64_t rank, int64_t size) {
  const auto total = [](const std::vector<int64_t>& rows) {
    return std::accumulate(rows.begin(), rows.end(), int64_t{0});
  };
  const auto own = static_cast<size_t>(rank);
  if (call.kind == comm::CallKind::kAllGather) return call.input.size(0) * (size - 1);
  if (call.kind == comm::CallKind::kReduceScatter || call.kind == comm::CallKind::kAllToAll)
    return total(call.input_rows) - call.input_rows[own];
  return 0;
}

class WatchedCommunicator final : public comm::Communicator {
 public:
  WatchedCommunicator(comm::Communicator& inner, Watch& watch)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner), watch_(watch) {}
  WatchedCommunicator(std::unique_ptr<comm::Communicator> inner, Watch& watch)
      : Communicator(inner->name(), inner->rank(), inner->size()),
        owned_(std::move(inner)),
        inner_(*owned_),
        watch_(watch) {}

  void abort(const std::string& reason) override { inner_.abort(reason); }

  comm::Work start(comm::Call call) override {
    const int64_t rows = rows_sent(call, rank(), size());
    double end = watch_.now;
    if (rows > 0)
      watch_.bytes[call.options.name] +=
          rows * (call.input.numel() / call.input.size(0)) * call.input.element_size();
    if (rows > 0 && call.input.is_floating_point())
      end = free_ = std::max(free_, watch_.now) + static_cast<double>(rows);
    return comm::Work(std::make_shared<Ends>(inner_.start(std::move(call)), end, watch_));
  }
  std::vector<std::unique_ptr<comm::Communicator>> start_split(comm::Call call) override {
    auto groups = inner_.start_split(std::move(call));
    for (auto& group : groups) {
      if (group != nullptr) group = std::make_unique<WatchedCommunicator>(std::move(group), watch_);
    }
    return groups;
  }

 private:
  struct Ends final : comm::Work::State {
    Ends(comm::Work inner, double end_time, Watch& watch)
        : work(std::move(inner)), end(end_time), clock(watch) {}
    void wait() override {
      work.wait();
      clock.now = std::max(clock.now, end);
    }
    bool done() override { return work.done() && clock.now >= end; }
    comm::Work work;
    double end;
    Watch& clock;
  };

  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator& inner_;
  Watch& watch_;
  double free_ = 0;  // when the link is
};

}  // namespace longhaul::parallel::testing
