// Delayed: every call takes the time that a slower network would need: Link. For measuring what overlaps with what on one machine; the results are
// those of the communicator it goes around. A call's bytes are the larger of what the rank sends and receives (Traffic): links work both
// ways at once. Splitting takes no time, nor do calls of a group of one rank that was split off.
//
//   const auto link = std::make_shared<comm::Link>(comm::LinkOptions{.latency_s = 1e-3, .bytes_per_second = 1e9});  // one a rank
//   comm::Delayed slow(comm::borrowed(world), link);
#pragma once

#include "comm/wrappers/link.h"
#include "comm/wrappers/wrapper.h"

namespace longhaul::comm {

class Delayed final : public Wrapper {
 public:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<Link> link) : Wrapper(std::move(inner)), link_(std::move(link)) {}
  Work start(Call call) override;

 private:
  Delayed(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place, std::shared_ptr<Link> link)
      : Wrapper(std::move(inner), std::move(place)), link_(std::move(link)), alone_(size() == 1) {}
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group, std::shared_ptr<const GroupPlace> place) const override;

  std::shared_ptr<Link> link_;
  bool alone_ = false;  // a group that was split off, of this rank: nothing leaves it
};

}  // namespace longhaul::comm
