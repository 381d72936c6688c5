// join_world: makes a communicator from the environment, for a program in which every rank is a process.
//
//   const std::unique_ptr<Communicator> world =
//       comm::join_world({.identity = {{"recipe", hash, {{"optim.lr", "0.25"}, …}}}});
//
// A single process (no engine, or one rank) gets a Single, and nothing is opened. Otherwise the ranks meet
// at rank 0's store and are compared before they are connected: if a rank never comes, or has a different
// program or recipe, all ranks get an error that names it and what differs. Each rank does a fixed number
// of store operations, and a few ranks do some that read what all ranks, or all of their machine, wrote
// (comm/gloo/meeting.h).
//
// Error 69: the port is in use, rank 0 does not answer, or ranks did not come in time. Error 64: the ranks
// differ in program or identity, or the environment variables are wrong. Error 75: a request to stop
// (base/process/signals.h) came meanwhile; it names the ranks for which this rank waited.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/gloo/identity.h"
#include "comm/placement.h"
#include "tensor/device.h"

namespace longhaul::comm {

struct JoinOptions {
  // The things that must be the same on all ranks; the program itself is added.
  std::vector<Identity> identity{};
  Timeout join_timeout = std::chrono::minutes(5);  // for all ranks to come
  Timeout timeout = std::chrono::minutes(10);      // for calls that have none of their own
  // its tensors go over NCCL (comm/c10d/nccl.h); none: all go over Gloo
  std::optional<at::Device> gpu{};
};

std::unique_ptr<Communicator> join_world(const JoinOptions& options = {});
std::unique_ptr<Communicator> join_world(const JoinOptions& options, const Placement& place);

}  // namespace longhaul::comm
