// Timelines in a run's page: the passes of a pipeline as measured, next to the simulated schedule
// (layout/schedule/schedule_check.h), and the activity of each rank in the last step that all have recorded.
// SVG with classes; the page gives the colours.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "layout/schedule/schedule_check.h"
#include "observe/trace/trace_file.h"

namespace longhaul::observe {

// PassPicture: rows of boxes, one row per rank of one pipeline, first stage first.
struct PassPicture {
  struct Box {
    layout::Pass pass = layout::Pass::kForward;
    int64_t chunk = 0, micro_batch = 0;
    double begin = 0, end = 0;
  };
  std::string title, caption, unit;
  std::vector<std::string> names;
  std::vector<std::vector<Box>> rows;
  std::string html() const;  // a figure with one rectangle of class "box" per pass
};

// Milliseconds since the first pass began, for the ranks whose coordinates other than pp are 0. `ranks` have
// one step each.
PassPicture measured_passes(const std::vector<RankTrace>& ranks);
PassPicture simulated_passes(const layout::Schedule& schedule, const layout::PassCosts& costs);
// Costs of one micro-batch on all layers of a rank, in milliseconds: means over the ranks.
layout::PassCosts measured_costs(const PassPicture& measured, int64_t chunks);

std::string rank_timelines(const std::vector<RankTrace>& ranks);  // `ranks` have one step each

// The whole section for a run folder; empty where it has one rank and no trace.
std::string timelines_section(const std::filesystem::path& run_folder);

}  // namespace longhaul::observe
