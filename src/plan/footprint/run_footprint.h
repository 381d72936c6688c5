// The footprint of a run that was, or goes on, from its events: every process and restart of it, steps done again, evaluation, saving and waiting
// included; the time between two processes is nobody's. Energy is the machine's meters' where the events have it, else the model's: cores and
// their load, and memory (docs/footprint.md). Of the machine of the first rank: where ranks are on several machines, the others' are not in it.
#pragma once

#include <filesystem>

#include "plan/footprint/footprint.h"

namespace longhaul::plan {

struct RunAssumptions {
  double years = 3;  // of the machine's life
  Place place = default_place();
  std::string accelerator;                  // of a run on GPUs; empty: processors
  std::optional<std::string> carbon_hours;  // text of a table (carbon_hours.h): the mean over the hours of the run counts
  std::string carbon_hours_name;
};

Footprint run_footprint(const std::filesystem::path& run, const RunAssumptions& assumptions = {});  // a run folder, or events.jsonl

}  // namespace longhaul::plan
