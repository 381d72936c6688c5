// The live page of a run, piece by piece: panels of HTML made from a RunView, escaped here, which the page's script puts in place of those it has. Also the
// pictures of which they are made. Everything is inside: no font, style or script comes from elsewhere, and each value is told by text or shape as well as
// by colour.
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

// In the page's order. `narrow`: for a phone. That of the rank that is looked at closely is empty: rank_panel() makes it.
std::vector<Panel> live_panels(const RunView& run, const std::vector<Alert>& alerts, bool narrow);
std::string live_page(const RunView& run, const std::string& base, const std::vector<Panel>& panels);

// The page of several runs.
std::string runs_panel(std::span<const RunView* const> runs, const std::vector<std::string>& links);
std::string runs_page(const std::string& panel);

// Pictures.
std::string mesh_picture(const RunView& run);
std::string latency_picture(const LatencyMap& map, int width);  // in pixels, at least 300; steps beside phases from 500 on
std::string rank_panel(const RunView& run, int64_t rank, const std::string& log);  // log: what log_of_rank() made
std::string log_of_rank(const std::filesystem::path& run_folder, int64_t rank);    // the end of its log, as HTML; "" where there is none
std::string incidents_panel(const RunView& run);
std::string time_bar(const RunView& run);

}  // namespace longhaul::observe
