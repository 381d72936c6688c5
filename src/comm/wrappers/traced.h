// Traced: writes every call of a communicator, and of the groups split off it, into a CallLog (call_log.h).
#pragma once

#include "comm/wrappers/call_log.h"
#include "comm/wrappers/wrapper.h"

namespace longhaul::comm {

class Traced final : public Wrapper {
 public:
  Traced(std::shared_ptr<Communicator> inner, std::shared_ptr<CallLog> log);
  Work start(Call call) override;

 private:
  Traced(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place,
         std::shared_ptr<CallLog> log);
  std::unique_ptr<Communicator> around(std::shared_ptr<Communicator> group,
                                       std::shared_ptr<const GroupPlace> place) const override;
  std::vector<std::unique_ptr<Communicator>> split_inner(Call call) override;

  std::shared_ptr<CallLog> log_;
  size_t group_;  // of the log
};

}  // namespace longhaul::comm
