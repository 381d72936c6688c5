// LogPlot: points and lines on two logarithmic axes, as inline SVG, for power laws, which are straight there.
#pragma once

#include <string>
#include <vector>

#include "observe/charts/chart.h"

namespace longhaul::observe {

struct LogSeries {
  std::string name;
  std::string style;  // CSS class: its colour ("train", "eval", "gzip", "xz", "save", "resume")
  std::vector<Point> points;
  bool line = false, dots = false, faint = false, dashed = false;
};

struct LogPlot {
  std::string title, caption, x_name, y_name;
  std::vector<LogSeries> series;  // points that are not above 0 are left out
  std::string html() const;
};

inline constexpr std::string_view kLogPlotStyle = R"css(
.logplot .train{color:var(--train)}.logplot .eval{color:var(--eval)}.logplot .gzip{color:var(--gzip)}.logplot .xz{color:var(--xz)}
.logplot .save{color:var(--save)}.logplot .resume{color:var(--resume)}.logplot .dashed{stroke-dasharray:6 4}.logplot .dot{fill:currentColor;stroke:none}
.logplot text{fill:var(--muted)}.logplot .key{color:var(--muted)}
)css";

}  // namespace longhaul::observe
