// C10dGroup over c10d's Gloo, whose ranks are threads here: what of NCCL's communicator can be tried on a
// CPU.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace longhaul::comm {

class C10dStore {
 public:
  C10dStore();
  std::unique_ptr<Communicator> join(int64_t rank, int64_t size, Timeout timeout) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace longhaul::comm
