// Recovery from the memory of nodes: finds the newest checkpoint that can be assembled completely from the
// nodes that are left.
//
// Every rank tells rank 0 which checkpoints its node's tier holds (storage/node_tier.h). Steps are tried
// from the newest on: every node reads each of its files of that step and compares them with the checksums
// of the manifest. The step is usable when every file that some rank needs is intact on some node. Files
// that a node needs and does not have (because it is new, or its copy is damaged) are sent from a node that
// has them; then every rank reads from its own node. A step that cannot be assembled is skipped, with the
// reason in the log. The files that a rank needs follow from its rectangles, so a different layout of ranks
// and nodes can resume from the checkpoint.
#pragma once

#include <optional>
#include <set>

#include "checkpoint/memory_tier/tier_nodes.h"
#include "checkpoint/state.h"
#include "storage/checkpoint_files.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

// A collective call of all ranks. Returns nothing when memory holds no checkpoint of this run that is as
// new as `at_least`, or newer.
std::optional<storage::Checkpoint> newest_in_memory(storage::FileSystem& files, const Writers& ranks,
                                                    const TierNodes& nodes, const std::string& run,
                                                    Providers state, const storage::SavedMoment& at_least);

// The files of the checkpoint that hold a part of these rectangles.
std::set<std::string> files_with(const storage::Manifest& manifest, const std::vector<StateEntry>& entries);

}  // namespace longhaul::checkpoint
