// How many devices a training should have: the fastest layout at each number of them, with the days, the
// price, the energy and the carbon of the whole training. On one cluster the fastest layout is also the one
// with the most goodput and the least energy, because all layouts have the same devices and failures; what
// differs is the number of devices. Source: docs/guides/plan.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/search/plan_report.h"

namespace longhaul::plan {

enum class PlanGoal { kDays, kPrice, kEnergy, kCarbon };
std::vector<std::string> names_of(PlanGoal);  // "days", "price", "energy", "carbon", in the order above

struct PlannedSize {
  int64_t gpus = 0;
  PlanCandidate plan;  // the fastest at this number
  Goodput goodput;
  double energy_kwh = 0, carbon_kg = 0;  // with cooling; of operation, at the world's mean
  // A number of devices that takes no longer and costs no more (in energy, where no price is known), and is
  // better in one of the two; 0: there is none, so that this size is a choice that one could defend.
  int64_t beaten_by = 0;

  double value(PlanGoal goal) const;
};

struct PlanSizes {
  std::string recipe, device;
  double tokens = 0;
  bool priced = false;
  std::vector<PlannedSize> sizes;   // the best by the goal first
  std::vector<int64_t> impossible;  // numbers of devices on which no layout can be
};

// `reports`: one for each number of devices, of the same recipe and cluster. kUsage when the goal is the
// price and the cluster has none.
PlanSizes plan_sizes(const std::vector<PlanReport>& reports, PlanGoal goal);

std::string sizes_text(const PlanSizes& sizes, PlanGoal goal, bool colours);
nlohmann::ordered_json sizes_json(const PlanSizes& sizes, PlanGoal goal);

}  // namespace longhaul::plan
