// The footprint of a run that was, or goes on, from its events: every process and restart of it, steps done again, evaluation, saving and waiting
// included; the time between two processes is nobody's. Energy is the machine's meters' where the events have it, else the model's: cores and
// their load, and memory (docs/guides/footprint.md). Events are of the first rank; where `machines` lists several, the others' energy is added: as much as the
// first's, or by their own mean power where all of them told it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/footprint/footprint.h"

namespace longhaul::plan {

struct RunMachine {
  std::string host;
  std::optional<double> mean_watts;  // of its meters, over what is known of the run
};

struct RunAssumptions {
  double years = 3;  // of the machine's life
  Place place = default_place();
  std::string accelerator;                  // of a run on GPUs; empty: processors
  std::optional<std::string> carbon_hours;  // text of a table (carbon_hours.h): the mean over the hours of the run counts
  std::string carbon_hours_name;
  EmbodiedSource embodied = EmbodiedSource::kBoth;
  std::vector<RunMachine> machines;  // of all ranks; empty: one (detect::machines_of_run reads them)
};

Footprint run_footprint(const std::filesystem::path& run, const RunAssumptions& assumptions = {});  // a run folder, or events.jsonl

}  // namespace longhaul::plan
