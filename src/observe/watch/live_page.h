// The live page of a run in pieces: HTML panels made from a RunView and escaped here, which the page's script
// puts in place of the old ones; and the pictures in them. Everything is inside the page: no font, style or
// script is fetched, and each value is shown by text or shape as well as by colour.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/charts/chart.h"  // html_escaped
#include "observe/watch/alerts.h"
#include "observe/watch/live_run.h"

namespace longhaul::observe {

struct Panel {
  std::string id, html;
};

// In the page's order. `narrow`: for a phone. The panel of the selected rank is empty: rank_panel() makes it.
std::vector<Panel> live_panels(const RunView& run, const std::vector<Alert>& alerts, bool narrow);
std::string live_page(const RunView& run, const std::string& base, const std::vector<Panel>& panels);

// The page of several runs.
std::string runs_panel(std::span<const RunView* const> runs, const std::vector<std::string>& links);
std::string runs_page(const std::string& panel);

// Pictures.
std::string mesh_picture(const RunView& run);
// In pixels, at least 300; from 500 on, steps are shown next to phases.
std::string latency_picture(const LatencyMap& map, int width);
// log: the result of log_of_rank().
std::string rank_panel(const RunView& run, int64_t rank, const std::string& log);
// The end of its log, as HTML; "" where there is none.
std::string log_of_rank(const std::filesystem::path& run_folder, int64_t rank);
std::string incidents_panel(const RunView& run);
std::string time_bar(const RunView& run);

}  // namespace longhaul::observe
