// Pictures of time in a run's page: the passes of a pipeline as they were measured, beside the schedule as it was simulated (layout/schedule/schedule_check.h), and
// what each rank did in the last step that all have recorded. SVG with classes; the colours are the page's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layout/schedule/schedule_check.h"
#include "observe/trace/trace_file.h"

namespace longhaul::observe {

// Rows of boxes: ranks of one pipeline, first stage first.
struct PassPicture {
  struct Box {
    layout::Pass pass = layout::Pass::kForward;
    int64_t chunk = 0, micro_batch = 0;
    double begin = 0, end = 0;
  };
  std::string title, caption, unit;
  std::vector<std::string> names;
  std::vector<std::vector<Box>> rows;
  std::string html() const;  // a figure with one rectangle of class "box" a pass
};

// Milliseconds since the first pass began; of the ranks whose coordinates but pp are 0. `ranks` have one step each.
PassPicture measured_passes(const std::vector<RankTrace>& ranks);
PassPicture simulated_passes(const layout::Schedule& schedule, const layout::PassCosts& costs);
// Of one micro-batch on all that a rank holds, in milliseconds: means over the ranks.
layout::PassCosts measured_costs(const PassPicture& measured, int64_t chunks);

std::string rank_timelines(const std::vector<RankTrace>& ranks);  // of one step each

// All of it for a run folder; empty where it has one rank and no trace.
std::string timelines_section(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
