// State that ranks leave when their run is ended because another rank failed (docs/sources/reliability.md
// §5.5, source 1: a surviving replica's memory). They leave it in their node's memory tier, in the same
// folder as its checkpoints; the next start assembles a checkpoint from it.
//
// Every surviving rank writes everything that it holds of the last complete step (left_… files), not only
// what it would write of a checkpoint, because any one of the replicas that have the same rectangle is
// enough. If the failed rank held a part that no other rank has (parallel.zero), that rank's own files of
// the in-memory checkpoint that was being written may have it: each rank records what it has written as
// soon as it is written (written_… files). A step for which both kinds together make up every tensor
// exactly becomes an in-memory checkpoint like any other, and is verified like any other. Otherwise the
// checkpoint that was committed before is used.
#pragma once

#include <limits>

#include "checkpoint/memory_tier/tier_nodes.h"
#include "checkpoint/state.h"
#include "storage/manifest.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

// All ranks of a node leave their state at the same time, while each still occupies its own memory.
struct LeavingRoom {
  int64_t ranks_of_node = 1;
  // The available part of the machine's memory; the free space of the tier is checked in addition.
  int64_t available_bytes = std::numeric_limits<int64_t>::max();
};

// Leaves the state of one rank. Not collective; may be called from any thread while nothing changes the
// tensors of `entries`. `manifest`: everything but files and tensors. It does nothing when the step is
// committed here already, a later start has begun, or there is no room. Returns whether the state was
// written.
bool leave_state(storage::FileSystem& files, const storage::NodeTier& tier,
                 const storage::SavedMoment& moment, int64_t rank, int64_t ranks,
                 const std::vector<StateEntry>& entries, storage::Manifest manifest,
                 const LeavingRoom& room = {});

// Records, for an in-memory checkpoint that is being written, that this rank's files are written, with
// their reports.
void tell_written(storage::FileSystem& files, const storage::NodeTier& tier,
                  const storage::SavedMoment& moment, int64_t rank, const nlohmann::json& reports,
                  storage::Manifest manifest);

// A manifest made from these texts (of the left_… and written_… files of one moment); nothing when they do
// not make up all tensors.
std::optional<storage::Manifest> put_together(const std::vector<std::string>& texts);

// A collective call. Takes the newest step that survivors left completely and that no node has a manifest
// of, and puts a manifest of it on all nodes.
void take_what_survivors_left(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes,
                              const std::string& run);

}  // namespace longhaul::checkpoint
