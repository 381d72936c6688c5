// Delayed: makes every call take the time that a slower network (Link) would need, to measure on one
// machine what overlaps with what. The results are those of the communicator that it wraps. The bytes of a
// call are the larger of what the rank sends and what it receives (Traffic), because links work in both
// directions at once. Splitting takes no time, nor do calls of a group of one rank that was split off.
//
//   const auto link = std::make_shared<comm::Link>(
//       comm::LinkOptions{.latency_s = 1e-3, .bytes_per_second = 1e9});
//   comm::Delayed slow(comm::borrowed(world), link);   // one link for each rank
#pragma once

#include "comm/wrappers/link.h"
#include "comm/wrappers/wrapper.h"

namespace longhaul::comm {

class Delayed final : public Wrapper {
 public:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<Link> link)
      : Wrapper(std::move(inner)), link_(std::move(link)) {}
  Work start(Call call) override;

 private:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place,
          std::shared_ptr<Link> link)
      : Wrapper(std::move(inner), std::move(place)), link_(std::move(link)), alone_(size() == 1) {}
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group,
                                       std::shared_ptr<const GroupPlace> place) const override;

  std::shared_ptr<Link> link_;
  bool alone_ = false;  // a group that was split off and has only this rank: nothing is sent
};

}  // namespace longhaul::comm
