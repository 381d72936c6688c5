// Recovery from the memory of nodes: the newest checkpoint that is whole there, put together from whatever nodes are left.
//
// All ranks tell rank 0 what lies in their nodes' tiers (storage/node_tier.h). From the newest step on: every node reads each file that it
// has of it and compares it with the manifest's checksums; a step counts when every file that some rank needs is whole on some node. What a
// node needs and has not (it is new, or its copy is damaged) comes from one that has it; then every rank reads from its own node. A step
// that cannot be put together is passed over, with the reason in the log. What a rank needs follows from its rectangles, so any other
// layout of ranks and nodes may go on from there.
#pragma once

#include <optional>
#include <set>

#include "checkpoint/memory_tier/tier_nodes.h"
#include "checkpoint/state.h"
#include "storage/checkpoint_files.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

// A collective call of all ranks. Nothing: there is none of this run that is as new as `at_least`, or newer.
std::optional<storage::Checkpoint> newest_in_memory(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes,
                                                    const std::string& run, Providers state, const storage::SavedMoment& at_least);

// Files of the checkpoint that hold a part of these rectangles.
std::set<std::string> files_with(const storage::Manifest& manifest, const std::vector<StateEntry>& entries);

}  // namespace longhaul::checkpoint
