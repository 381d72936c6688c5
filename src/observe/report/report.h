// The page of a run: report.html, one self-contained file (curves as SVG, style, a little script), made from
// events.jsonl and recipe.toml. It works while a run goes on, after the run was killed, resumed or spoiled by
// NaNs, and for one step or 100,000.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/charts/chart.h"
#include "observe/events/run_history.h"

namespace longhaul::observe {

// Writes run_folder/report.html (atomically) and returns its path. `closing`: a last section of the page,
// from a caller that has information that this folder lacks.
std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& closing = "");

struct RecipeChange {  // a recipe value that is not the default
  std::string key, value, default_value, origin;
};
// From a run folder's recipe.toml, in the recipe's order.
std::vector<RecipeChange> recipe_changes(const std::filesystem::path& recipe_file);

// Number of points that a smoothed curve averages over; 1: the curve is not smoothed.
double smoothing_window(size_t points);
std::vector<Chart> report_charts(const RunHistory& run);
// `timelines`: a section (report_timelines.h). `recipe_remark` is shown in place of the recipe's table when
// there is none.
std::string report_html(const RunHistory& run, const std::vector<RecipeChange>& changes,
                        const std::string& recipe_remark = "", const std::string& timelines = "",
                        const std::string& closing = "");

}  // namespace longhaul::observe
