// The footprint of a completed or running run from its events. It includes every process and restart,
// repeated steps, evaluation, saving and waiting, but not the time between two processes. The energy is that
// of the machine's meters if the events have it, else it is modelled from cores, their load, and memory
// (docs/guides/footprint.md). Events are those of the first rank; if `machines` lists several machines, the
// energy of the others is added: as much as the first one's, or by their own mean power if all of them report
// it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plan/footprint/footprint.h"

namespace longhaul::plan {

struct RunMachine {
  std::string host;
  std::optional<double> mean_watts;  // by its meters, over the recorded part of the run
};

struct RunAssumptions {
  double years = 3;  // lifetime of the machine
  Place place = default_place();
  std::string accelerator;  // for a run on GPUs; empty: processors
  // Text of a table (carbon_hours.h); the mean over the hours of the run is used.
  std::optional<std::string> carbon_hours;
  std::string carbon_hours_name;
  EmbodiedSource embodied = EmbodiedSource::kBoth;
  // Machines of all ranks; empty: one (detect::machines_of_run reads them).
  std::vector<RunMachine> machines;
};

// `run`: a run folder, or events.jsonl.
Footprint run_footprint(const std::filesystem::path& run, const RunAssumptions& assumptions = {});

}  // namespace longhaul::plan
