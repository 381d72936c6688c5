// Wrapper: the base of classes that wrap a communicator of any kind: Traced, Delayed, Faulty. A wrapper
// sees calls after they are checked and numbered; groups that are split off are wrapped like the group they
// come from. Wrappers can be nested, in any order:
//
//   comm::Traced world(comm::borrowed(back_end), log);
//   comm::Delayed slow(comm::borrowed(world), link);       // a trace of what leaves the delay, not of what
//                                                          enters it
//
// Priorities, timeouts and errors are those of the wrapped communicator. Threads as Communicator says.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

// A pointer to a communicator whose owner lives longer than the wrapper.
inline std::shared_ptr<Communicator> borrowed(Communicator& communicator) {
  return {std::shared_ptr<void>(), &communicator};
}

using observe::GroupPlace;

class Wrapper : public Communicator {
 public:
  void abort(const std::string& reason) override { inner_->abort(reason); }
  bool in_order() const override { return inner_->in_order(); }
  void require_well() override { inner_->require_well(); }
  Tell aborter() override { return inner_->aborter(); }
  void on_failure(Tell tell) override { inner_->on_failure(std::move(tell)); }
  Work start(Call call) override { return inner_->start(std::move(call)); }
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) final;

  const GroupPlace& place() const { return *place_; }

 protected:
  explicit Wrapper(std::shared_ptr<Communicator> inner);  // the first, around a whole world
  Wrapper(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place);
  Communicator& inner() const { return *inner_; }

  // A group that was split off this one, wrapped like it.
  virtual std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group,
                                               std::shared_ptr<const GroupPlace> place) const = 0;
  virtual std::vector<std::unique_ptr<Communicator>> split_inner(Call call) {
    return inner_->start_split(std::move(call));
  }

 private:
  std::shared_ptr<Communicator> inner_;
  std::shared_ptr<const GroupPlace> place_;
};

}  // namespace longhaul::comm
