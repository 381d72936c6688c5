// Checks a search: no small change of its best layout (plan/search/next_changes.h) that fits may be faster.
// `plan validate` and the tests check presets on clusters of several sizes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/search/next_changes.h"

namespace longhaul::plan {

struct SearchCheck {
  std::string model;
  int64_t gpus = 0, layouts = 0;      // layouts: number of tried layouts
  std::optional<PlanCandidate> best;  // none: no layout fits
  std::optional<Change> faster;       // a change that the search should have found
};

SearchCheck check_search(const std::string& model, const Work& work, const Cluster& cluster, int64_t batch);

// For models with and without experts on H100s, with sequences of 4,096 and steps of 1,024.
std::vector<SearchCheck> check_searches();

}  // namespace longhaul::plan
