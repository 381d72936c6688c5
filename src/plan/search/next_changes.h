// The gain of small changes of a plan: one value of its layout changed, one factor of two moved from one axis
// to another, or another batch or cluster.
#pragma once

#include "plan/search/search.h"

namespace longhaul::plan {

struct Change {
  enum class Of { kLayout, kBatch, kCluster };
  std::string what;
  Of of = Of::kLayout;
  PlanCandidate candidate;
  bool fits = true;  // fits into the device's memory
};

// The fastest first, whether they fit into memory or not.
std::vector<Change> next_changes(const Work& work, const PlanCandidate& plan, const Cluster& cluster,
                                 int64_t batch);

}  // namespace longhaul::plan
