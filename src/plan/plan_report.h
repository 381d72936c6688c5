// What a search found, what a plan is made of, and how far the model is from published steps: tables for the terminal, JSON for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/goodput.h"
#include "plan/published.h"

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

// Where the time and the memory of one plan go, and what the next change would gain.
std::string explain_text(const PlanReport& report, const PlanCandidate& plan, bool colours);
nlohmann::ordered_json explain_json(const PlanReport& report, const PlanCandidate& plan);

std::string validation_text(bool colours);
nlohmann::ordered_json validation_json();

}  // namespace longhaul::plan
