// ThreadGroup: a communicator whose ranks are threads of this process. It serves tests, proofs, and many
// virtual ranks on one machine.
//
// Tensors are on the CPU and are copied only to their destination: ranks read and write each other's
// tensors. A call proceeds by itself once all ranks have started it: the last one, and those that wait, do
// the work, so no further thread is needed and none spins. Sums are taken in the order of ranks, whichever
// rank comes first. Priorities have no effect, because calls wait for nothing but ranks.
//
// Timeouts are detected by ranks that wait() for a call or ask whether it is done().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class Rendezvous;

struct ThreadGroupOptions {
  std::string name = "world";
  // For calls that have none of their own, here and in groups that are split off.
  Timeout timeout = std::chrono::minutes(10);
};

class ThreadGroup final : public Communicator {
 public:
  // Makes one communicator for each rank, in their order; each must be used by its rank's thread. run_ranks
  // creates the threads too.
  static std::vector<std::unique_ptr<Communicator>> make(int64_t size,
                                                         const ThreadGroupOptions& options = {});

  ThreadGroup(std::shared_ptr<Rendezvous> group, int64_t rank);
  ~ThreadGroup() override;
  void abort(const std::string& reason) override;
  Tell aborter() override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  std::shared_ptr<Rendezvous> group_;
};

}  // namespace longhaul::comm
