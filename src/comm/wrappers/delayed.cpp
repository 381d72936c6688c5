#include "comm/wrappers/delayed.h"

#include <algorithm>
#include <cmath>

#include "comm/wrappers/traffic.h"

namespace longhaul::comm {
namespace {

class DelayedWork final : public Work::State {
 public:
  DelayedWork(std::shared_ptr<Link> link, std::shared_ptr<Link::Passage> passage)
      : link_(std::move(link)), passage_(std::move(passage)) {}
  void wait() override { passage_->wait(); }
  bool done() override { return passage_->done(); }
  int64_t ended_ns() override { return passage_->ended_ns(); }

 private:
  std::shared_ptr<Link> link_;  // lives as long as anyone waits
  std::shared_ptr<Link::Passage> passage_;
};

}  // namespace

Work Delayed::start(Call call) {
  if (alone_) return inner().start(std::move(call));
  const int64_t bytes = bytes_of(call);
  const int priority = call.options.priority;
  Work inner_work = inner().start(std::move(call));
  return Work(std::make_shared<DelayedWork>(link_, link_->send(std::move(inner_work), bytes, priority)));
}

int64_t Delayed::bytes_of(const Call& call) const {
  const auto larger = [](const Traffic& traffic) { return std::max(traffic.sent, traffic.received); };
  if (nodes_.node_of_rank.empty()) return larger(traffic_of(call, rank(), size()));
  const auto node_of = [&](int64_t member) {
    return nodes_.node_of_rank[static_cast<size_t>(place().top_ranks[static_cast<size_t>(member)])];
  };
  const auto near = [&](int64_t peer) { return node_of(peer) == node_of(rank()); };
  const int64_t here = larger(traffic_with(call, rank(), size(), near)),
                away = larger(traffic_with(call, rank(), size(), [&](int64_t peer) { return !near(peer); }));
  return std::max<int64_t>(here, std::llround(static_cast<double>(away) * nodes_.times_slower));
}

std::unique_ptr<Communicator> Delayed::around(std::shared_ptr<Communicator> group,
                                              std::shared_ptr<const GroupPlace> place) const {
  return std::unique_ptr<Communicator>(new Delayed(std::move(group), std::move(place), link_, nodes_));
}

}  // namespace longhaul::comm
