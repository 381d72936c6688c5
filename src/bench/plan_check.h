// `longhaul bench plan`: is what the planner says of a step what it takes here? Small runs of this machine, on one to four ranks: some of them set the
// planner's constants for it (what products, attention, recurrences and memory reach, what a layer, a step and a message cost, how fast ranks exchange), all
// others are predicted.
// Times are medians of steps behind the first three, of several rounds the fastest; memory is the peak of tensors of runs on one rank beside what their start had planned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace longhaul::bench {

struct PlanCheckRequest {
  int64_t steps = 20;            // of each run
  int64_t rounds = 1;            // through all runs: what else a machine does rarely disturbs the same run twice
  bool processes = false;        // ranks are processes under `launch`; else threads
  bool keep = false;             // the constants, for later plans of this machine (run/local_cluster.h)
  std::filesystem::path folder;  // for the runs; empty: a temporary one
};

struct PlanCheckRow {
  std::string name;                    // "dp2 zero2"
  std::vector<std::string> overrides;  // of the small recipe
  int64_t ranks = 1;
  bool seen = false;  // the constants were set with it
  double measured_s = 0, planned_s = 0;
  std::optional<double> measured_bytes, planned_bytes;  // on one rank
  double error() const { return planned_s / measured_s - 1; }
};

struct PlanCheck {
  std::vector<PlanCheckRow> rows;
  plan::Efficiency efficiency;
  double link_rate = 0;  // bytes/s between ranks
  // Of rows that were not seen.
  double mean_error = 0, worst_error = 0, correlation = 0;
  double worst_memory_error = 0;  // of rows on one rank
};

std::vector<PlanCheckRow> plan_check_rows();  // not measured yet
PlanCheck check_plan(const PlanCheckRequest& request);
std::string text_of(const PlanCheck& check, bool colours);
nlohmann::ordered_json to_json(const PlanCheck& check);

}  // namespace longhaul::bench
