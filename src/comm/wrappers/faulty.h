// Faulty: injects planned faults, to test the code that detects them. At the n-th call of a group, splits
// included, this rank throws, is away for some time, hangs, or gets results with one wrong bit.
//
//   comm::Faulty world(comm::borrowed(back_end), {{.group = "world/dp 0", .call = 3,
//                                                  .kind = comm::Fault::Kind::kAway, .away = 2s}});
#pragma once

#include <memory>
#include <vector>

#include "comm/wrappers/wrapper.h"

namespace longhaul::comm {

struct Fault {
  enum class Kind {
    kThrow,  // an Error of its own (kCommunication), instead of the call
    kAway,   // comes to the call later by this time, like a stopped process: others may have timed out
    // never comes to the call; throws when abort() of this Faulty, or of one that it comes from, is called
    kHang,
    kCorrupt,  // one bit of the call's result on this rank is flipped after the wait
  };
  std::string group;  // GroupPlace::path
  int64_t call = 0;   // number among the group's collective calls
  Kind kind = Kind::kThrow;
  Timeout away = std::chrono::seconds(1);
  int64_t bit = 0;        // of the result
  bool exchange = false;  // `call` counts exchanges
};

class Faulty final : public Wrapper {
 public:
  Faulty(std::shared_ptr<Communicator> inner, std::vector<Fault> faults);
  Work start(Call call) override;
  void abort(const std::string& reason) override;

 private:
  struct Patience;  // shared by all groups of this rank: how long it hangs
  Faulty(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place,
         std::vector<Fault> faults, std::shared_ptr<Patience> patience)
      : Wrapper(std::move(inner), std::move(place)),
        faults_(std::move(faults)),
        patience_(std::move(patience)) {}
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group,
                                       std::shared_ptr<const GroupPlace> place) const override;
  std::vector<std::unique_ptr<Communicator>> split_inner(Call call) override;
  const Fault* planned(const Call& call) const;  // null: none
  void happen(const Fault& fault, const Call& call) const;

  std::vector<Fault> faults_;
  std::shared_ptr<Patience> patience_;
};

}  // namespace longhaul::comm
