#include "comm/wrappers/delayed.h"

#include <algorithm>

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
  const Traffic traffic = traffic_of(call, rank(), size());
  const int priority = call.options.priority;
  Work inner_work = inner().start(std::move(call));
  return Work(std::make_shared<DelayedWork>(
      link_, link_->send(std::move(inner_work), std::max(traffic.sent, traffic.received), priority)));
}

std::unique_ptr<Communicator> Delayed::around(std::shared_ptr<Communicator> group,
                                              std::shared_ptr<const GroupPlace> place) const {
  return std::unique_ptr<Communicator>(new Delayed(std::move(group), std::move(place), link_));
}

}  // namespace longhaul::comm
