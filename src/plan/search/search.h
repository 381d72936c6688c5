// Search evaluates all possible layouts of a model on a cluster by the time of a step. Impossible layouts are
// rejected by class, with a reason: numbers that do not divide, memory, too few micro-batches. It takes a
// microsecond or two per layout; large models with experts have half a million.
#pragma once

#include <string>
#include <vector>

#include "plan/memory/search_memory.h"
#include "plan/step_time.h"

namespace longhaul::plan {

inline constexpr int64_t kLeastContext = 512;  // tokens of a sequence on a context rank

struct SearchLimits {
  int64_t batch = 0;         // sequences per step
  int64_t keep = 10;         // number of layouts to return
  int64_t most_context = 0;  // limit of ranks per sequence; 0: as long as each has kLeastContext tokens
  recipe::ContextOptions context{};  // how context ranks exchange, as the recipe says
};

struct PlanCandidate {
  PlanLayout layout;
  StepParts parts;
  SearchMemory memory;
  double seconds = 0, mfu = 0, tokens_per_second = 0;
};

struct Rejected {
  std::string reason;
  int64_t layouts = 0;
  std::string example;  // one of them, and what was missing
};

struct SearchResult {
  std::vector<PlanCandidate> best;  // fastest first
  std::vector<Rejected> rejected;   // most frequent first
  int64_t tried = 0;
  double seconds = 0;  // duration of the search
};

SearchResult search(const Work& work, const Cluster& cluster, const SearchLimits& limits);

// What the search tries of each schedule's number of stages on a rank: 1, or 2 where the method says so.
int64_t chunks_of(recipe::PipelineSchedule schedule);

// Evaluates one layout, whether the search would find it or not.
PlanCandidate evaluate(const Work& work, const PlanLayout& layout, const Cluster& cluster, int64_t batch);

}  // namespace longhaul::plan
