// join_world: from the environment to a communicator, for a program of which every rank is a process.
//
//   const std::unique_ptr<Communicator> world = comm::join_world({.identity = {{"recipe", hash, {{"optim.lr", "0.25"}, …}}}});
//
// Alone (no engine, or one rank) it is Single and nothing is opened. Else the ranks meet at rank 0's store and are compared before they are
// connected: a rank that never comes, or has another program or recipe, is an error in all of them that names it, and what differs. Each rank does a fixed
// number of store operations, and few ranks some that read what all, or all of their machine, wrote (comm/gloo/meeting.h).
//
// Error 69: the port is in use, rank 0 does not answer, ranks did not come in time. Error 64: ranks that are not of one kind; variables.
// Error 75: a request to stop (base/process/signals.h) came meanwhile; whom this rank waited for.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/gloo/identity.h"
#include "comm/placement.h"

namespace longhaul::comm {

struct JoinOptions {
  std::vector<Identity> identity{};                // what must be the same on all ranks; the program is added
  Timeout join_timeout = std::chrono::minutes(5);  // for all ranks to come
  Timeout timeout = std::chrono::minutes(10);      // of calls that have none of their own
  bool nccl = false;                               // tensors on GPUs go over NCCL (comm/c10d/nccl.h)
};

std::unique_ptr<Communicator> join_world(const JoinOptions& options = {});
std::unique_ptr<Communicator> join_world(const JoinOptions& options, const Placement& place);

}  // namespace longhaul::comm
