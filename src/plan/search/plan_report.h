// The result of a search and the parts of a plan: tables for the terminal, JSON for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/reliability/goodput.h"
#include "plan/search/search.h"

namespace longhaul::plan {

struct PlanReport {
  std::string recipe;
  Cluster cluster;
  Work work;
  int64_t batch = 0;
  double tokens = 0;
  SearchResult found;
};
std::string plan_text(const PlanReport& report, bool colours);
nlohmann::ordered_json plan_json(const PlanReport& report);

// Shows how the time and the memory of one plan are used, and what the next change would gain.
std::string explain_text(const PlanReport& report, const PlanCandidate& plan, bool colours);
nlohmann::ordered_json explain_json(const PlanReport& report, const PlanCandidate& plan);

}  // namespace longhaul::plan
