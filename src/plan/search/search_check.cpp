#include "plan/search/search_check.h"

#include <utility>

#include "recipe/architecture/presets.h"

namespace longhaul::plan {

SearchCheck check_search(const std::string& model, const Work& work, const Cluster& cluster, int64_t batch) {
  SearchCheck check{.model = model, .gpus = cluster.gpus};
  const SearchResult found = search(work, cluster, {.batch = batch});
  check.layouts = found.tried;
  if (found.best.empty()) return check;
  check.best = found.best.front();
  for (Change& change : next_changes(work, *check.best, cluster, batch)) {
    if (change.of != Change::Of::kLayout || !change.fits) continue;
    if (change.candidate.seconds < check.best->seconds * (1 - 1e-9)) check.faster = std::move(change);
    return check;  // the fastest first
  }
  return check;
}

std::vector<SearchCheck> check_searches() {
  constexpr int64_t kSequence = 4096, kBatch = 1024;
  std::vector<SearchCheck> checks;
  for (const auto& [model, gpus] : {std::pair<const char*, int64_t>{"llama-3-8b", 64},
                                    {"llama-3-8b", 512},
                                    {"mixtral-8x7b", 64},
                                    {"mixtral-8x7b", 512},
                                    {"minimax-text-01", 512}}) {
    const Work work = work_of(recipe::preset_model(model), kSequence);
    checks.push_back(check_search(model, work, load_cluster("h100", gpus), kBatch));
  }
  return checks;
}

}  // namespace longhaul::plan
