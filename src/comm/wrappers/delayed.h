// Delayed: makes every call take the time that a slower network (Link) would need, to measure on one
// machine what overlaps with what. The results are those of the communicator that it wraps. The bytes of a
// call are the larger of what the rank sends and what it receives (Traffic), because links work in both
// directions at once. Splitting takes no time, nor do calls of a group of one rank that was split off.
//
//   const auto link = std::make_shared<comm::Link>(
//       comm::LinkOptions{.latency_s = 1e-3, .bytes_per_second = 1e9});
//   comm::Delayed slow(comm::borrowed(world), link);   // one link for each rank
//
// Ranks may stand on nodes: bytes for other nodes leave by another, slower link at the same time, and a call
// is through when both parts are.
#pragma once

#include <vector>

#include "comm/wrappers/link.h"
#include "comm/wrappers/wrapper.h"

namespace longhaul::comm {

struct DelayedNodes {
  std::vector<int64_t> node_of_rank;  // of each rank of the wrapped world; empty: all are on one
  double times_slower = 1;            // how many times as long a byte takes to another node
};

class Delayed final : public Wrapper {
 public:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<Link> link, DelayedNodes nodes = {})
      : Wrapper(std::move(inner)), link_(std::move(link)), nodes_(std::move(nodes)) {}
  Work start(Call call) override;

 private:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place,
          std::shared_ptr<Link> link, DelayedNodes nodes)
      : Wrapper(std::move(inner), std::move(place)),
        link_(std::move(link)),
        nodes_(std::move(nodes)),
        alone_(size() == 1) {}
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group,
                                       std::shared_ptr<const GroupPlace> place) const override;

  int64_t bytes_of(const Call& call) const;  // that the near link would take as long for

  std::shared_ptr<Link> link_;
  DelayedNodes nodes_;
  bool alone_ = false;  // a group that was split off and has only this rank: nothing is sent
};

}  // namespace longhaul::comm
