// The page of a run: report.html, one file with everything inside (curves as SVG, style, a little script), made from
// events.jsonl and recipe.toml. Works while a run goes, after it was killed, resumed or spoiled by NaNs, and for one
// step or 100,000.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "observe/charts/chart.h"
#include "observe/events/run_history.h"

namespace longhaul::observe {

// Writes run_folder/report.html (atomically) and returns its path. `closing`: a section with which the page ends, of who knows what this folder
// does not.
std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& closing = "");

struct RecipeChange {  // a recipe value that is not the default
  std::string key, value, default_value, origin;
};
// From a run folder's recipe.toml, in the recipe's order.
std::vector<RecipeChange> recipe_changes(const std::filesystem::path& recipe_file);

double smoothing_window(size_t points);  // how many points a smoothed curve averages over; 1: it is shown as it is
std::vector<Chart> report_charts(const RunHistory& run);
// `timelines`: a section (report_timelines.h). `recipe_remark` stands where the recipe's table would, when there is none.
std::string report_html(const RunHistory& run, const std::vector<RecipeChange>& changes, const std::string& recipe_remark = "",
                        const std::string& timelines = "", const std::string& closing = "");

}  // namespace longhaul::observe
