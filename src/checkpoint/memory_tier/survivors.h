// What ranks leave of their state when their run is ended because another one failed (docs/sources/reliability.md §5.5, source 1: a surviving replica's
// memory), in their node's memory tier beside its checkpoints, and what the next start puts together from it.
//
// Every survivor writes all that it holds of the last step that was whole (left_…), not only what it would write of a checkpoint: of replicas that have
// the same rectangle any one will do. Where the failed rank held a part that nobody else has (parallel.zero), its own files of the checkpoint in memory
// that was under way may have it: each rank says what it has written as soon as it has (written_…). A step for which the pieces of both make up every
// tensor exactly becomes a checkpoint in memory like any other, and is verified like any other; else what was committed before stands.
#pragma once

#include <limits>

#include "checkpoint/memory_tier/tier_nodes.h"
#include "checkpoint/state.h"
#include "storage/manifest.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

// All ranks of a node leave theirs at once, while each still occupies its own memory.
struct LeavingRoom {
  int64_t ranks_of_node = 1;
  int64_t available_bytes = std::numeric_limits<int64_t>::max();  // of the machine's memory; the tier's own room counts besides
};

// Of one rank; not collective, from any thread while nothing changes what `entries` show. `manifest`: all but files and tensors. Nothing is done where the
// step is committed here already, a later start has begun, or there is no room. → whether it lies there.
bool leave_state(storage::FileSystem& files, const storage::NodeTier& tier, const storage::SavedMoment& moment, int64_t rank, int64_t ranks,
                 const std::vector<StateEntry>& entries, storage::Manifest manifest, const LeavingRoom& room = {});

// Of a checkpoint in memory that is under way: this rank's files are written, and these are their reports.
void tell_written(storage::FileSystem& files, const storage::NodeTier& tier, const storage::SavedMoment& moment, int64_t rank,
                  const nlohmann::json& reports, storage::Manifest manifest);

// A manifest of what these texts (of left_… and written_… files of one moment) tell; nothing where they do not make up all tensors.
std::optional<storage::Manifest> put_together(const std::vector<std::string>& texts);

// A collective call: the newest step that survivors left whole, and that no node has a manifest of, gets one on all nodes.
void take_what_survivors_left(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes, const std::string& run);

}  // namespace longhaul::checkpoint
