// What a small change of a plan would gain: its layout changed in one thing or one factor of two moved from an axis to another, its batch, its cluster.
#pragma once

#include "plan/search/search.h"

namespace longhaul::plan {

struct Change {
  enum class Of { kLayout, kBatch, kCluster };
  std::string what;
  Of of = Of::kLayout;
  PlanCandidate candidate;
  bool fits = true;  // into the device's memory
};

// The fastest first, whether they fit or not.
std::vector<Change> next_changes(const Work& work, const PlanCandidate& plan, const Cluster& cluster, int64_t batch);

}  // namespace longhaul::plan
