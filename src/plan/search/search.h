// Search: every layout of a model on a cluster that can be, by how long its step takes. What cannot be falls by class, and the class says why:
// numbers that do not divide, memory, too few micro-batches. A microsecond or two a layout: of large models with experts half a million.
#pragma once

#include <string>
#include <vector>

#include "plan/memory/rank_memory.h"
#include "plan/step_time.h"

namespace longhaul::plan {

inline constexpr int64_t kLeastContext = 512;  // tokens of a sequence on a context rank

struct SearchLimits {
  int64_t batch = 0;         // sequences a step
  int64_t keep = 10;         // layouts that are told
  int64_t most_context = 0;  // ranks of a sequence; 0: as many as leave each kLeastContext tokens
};

struct PlanCandidate {
  PlanLayout layout;
  StepParts parts;
  RankMemory memory;
  double seconds = 0, mfu = 0, tokens_per_second = 0;
};

struct Rejected {
  std::string reason;
  int64_t layouts = 0;
  std::string example;  // one of them, and what was missing
};

struct SearchResult {
  std::vector<PlanCandidate> best;  // fastest first
  std::vector<Rejected> rejected;   // most first
  int64_t tried = 0;
  double seconds = 0;  // that the search took
};

SearchResult search(const Work& work, const Cluster& cluster, const SearchLimits& limits);

// One layout, whether it would be found or not.
PlanCandidate evaluate(const Work& work, const PlanLayout& layout, const Cluster& cluster, int64_t batch);

}  // namespace longhaul::plan
