// `longhaul bench plan`: checks whether the planner predicts correctly what a step takes on this machine.
// It makes small runs on one to four ranks. Some of them calibrate the planner's constants for this machine
// (the rates that products, attention, recurrences and memory reach; the costs of a layer, a step and a
// message; the rate of exchanges between ranks); all others are predicted. Times are medians of the steps
// after the first three, from the fastest of several rounds. Memory is the peak of tensors of runs on one
// rank, compared with what was planned at their start.
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
  int64_t steps = 20;  // steps of each run
  // Passes through all runs: other load on the machine rarely disturbs the same run twice.
  int64_t rounds = 1;
  bool processes = false;        // ranks are processes under `launch`, else threads
  bool keep = false;             // keep the constants for later plans of this machine (run/local_cluster.h)
  std::filesystem::path folder;  // folder for the runs; empty: a temporary one
};

struct PlanCheckRow {
  std::string name;                    // "dp2 zero2"
  std::vector<std::string> overrides;  // overrides of the small recipe
  int64_t ranks = 1;
  bool seen = false;  // the constants were calibrated with it
  double measured_s = 0, planned_s = 0;
  std::optional<double> measured_bytes, planned_bytes;  // on one rank
  double error() const { return planned_s / measured_s - 1; }
};

struct PlanCheck {
  std::vector<PlanCheckRow> rows;
  plan::Efficiency efficiency;
  double link_rate = 0;  // bytes/s between ranks
  // For the rows that were not seen.
  double mean_error = 0, worst_error = 0, correlation = 0, pair_order = 0;  // Spearman's and Kendall's
  double worst_memory_error = 0;                                            // for the rows on one rank
};

std::vector<PlanCheckRow> plan_check_rows();  // the rows before measurement
PlanCheck check_plan(const PlanCheckRequest& request);
std::string text_of(const PlanCheck& check, bool colours);
nlohmann::ordered_json to_json(const PlanCheck& check);

}  // namespace longhaul::bench
