// Parts of a footprint's pages: numbers with their uncertainty, and pictures as inline SVG in the style of
// the report page (observe/report/report_page.h).
#pragma once

#include <string>
#include <vector>

#include "plan/footprint/footprint_report.h"

namespace longhaul::plan {

std::string amount(Uncertain value);  // "2,515", "1.49 ± 0.1"
std::string message_of(const FootprintComparison& comparison);

struct Bar {
  std::string name;
  Uncertain value;
  std::string style = "forward";  // CSS class that sets its colour
};
// Horizontal bars from zero, with whiskers of one standard deviation.
std::string bars_picture(const std::string& title, const std::string& remark, const std::string& unit,
                         const std::vector<Bar>& bars);
// Lives of devices by share of the peak and length of a life: darker is more. The field nearest to the
// training has a ring, if one is near.
std::string lifetimes_picture(const LifetimeGrid& grid);
std::string rows_table(const Footprint& footprint);
std::string tiles_of(const Footprint& footprint);
std::string carbon_by_grid(const Footprint& footprint);

}  // namespace longhaul::plan
