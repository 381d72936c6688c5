// Faulty: what goes wrong in the field, planned, for tests of what notices it: at the n-th call of a group this rank throws, is away for some
// time, or gets results with one bit wrong.
//
//   comm::Faulty world(comm::borrowed(back_end), {{.group = "world/dp 0", .call = 3, .kind = comm::Fault::Kind::kAway, .away = 2s}});
#pragma once

#include <vector>

#include "comm/wrapper.h"

namespace longhaul::comm {

struct Fault {
  enum class Kind {
    kThrow,    // an Error of its own (kCommunication), instead of the call
    kAway,     // comes to the call so much later, like a process that was stopped: others may have run out of time
    kCorrupt,  // one bit of what the call gives this rank is flipped when it was waited for
  };
  std::string group;  // GroupPlace::path
  int64_t call = 0;   // number among the group's collective calls; splits cannot fail
  Kind kind = Kind::kThrow;
  Timeout away = std::chrono::seconds(1);
  int64_t bit = 0;        // of the result
  bool exchange = false;  // `call` counts exchanges
};

class Faulty final : public Wrapper {
 public:
  Faulty(std::shared_ptr<Communicator> inner, std::vector<Fault> faults) : Wrapper(std::move(inner)), faults_(std::move(faults)) {}
  Work start(Call call) override;

 private:
  Faulty(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place, std::vector<Fault> faults)
      : Wrapper(std::move(inner), std::move(place)), faults_(std::move(faults)) {}
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group, std::shared_ptr<const GroupPlace> place) const override;

  std::vector<Fault> faults_;
};

}  // namespace longhaul::comm
