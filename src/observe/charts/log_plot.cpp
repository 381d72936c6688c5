#include "observe/charts/log_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace longhaul::observe {
namespace {

constexpr double kPlotWidth = 1080, kPlotHeight = 420, kPlotLeft = 70, kPlotRight = 1060, kPlotTop = 30,
                 kPlotBottom = 372;

struct LogRange {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void take(double value) { low = std::min(low, value), high = std::max(high, value); }
  void widen() {
    const double margin = std::max(std::pow(high / low, 0.04), 1.01);
    low /= margin, high *= margin;
  }
  double share(double value) const { return std::log(value / low) / std::log(high / low); }
};

bool drawable(const Point& point) {
  return point.x > 0 && point.y > 0 && std::isfinite(point.x) && std::isfinite(point.y);
}

// Decades with the numbers between them where there are few.
std::vector<double> plot_ticks(const LogRange& range) {
  std::vector<double> ticks = log_ticks(range.low, range.high);
  if (ticks.size() >= 3) return ticks;
  ticks.clear();
  for (const double tick : linear_ticks(range.low, range.high, 6)) ticks.push_back(tick);
  return ticks;
}

}  // namespace

std::string LogPlot::html() const {
  LogRange x, y;
  for (const LogSeries& each : series) {
    for (const Point& point : each.points) {
      if (drawable(point)) x.take(point.x), y.take(point.y);
    }
  }
  std::string html = fmt::format(
      "<figure class=\"picture logplot\"><figcaption><h3>{}</h3><div class=\"keys\">", html_escaped(title));
  for (const LogSeries& each : series) {
    if (!each.name.empty())
      html += fmt::format("<span class=\"key\"><i class=\"{}\"></i>{}</span>", each.style,
                          html_escaped(each.name));
  }
  html += "</div>";
  if (!caption.empty()) html += fmt::format("<p>{}</p>", html_escaped(caption));
  html += "</figcaption>\n";
  if (!(x.high > 0)) return html + "<p class=\"note\">There is nothing to draw.</p></figure>\n";
  x.widen(), y.widen();
  const auto at_x = [&](double value) { return kPlotLeft + (kPlotRight - kPlotLeft) * x.share(value); };
  const auto at_y = [&](double value) { return kPlotBottom - (kPlotBottom - kPlotTop) * y.share(value); };
  html += fmt::format("<div class=\"scroll\"><svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kPlotWidth,
                      kPlotHeight);
  for (const double tick : plot_ticks(x)) {
    html += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:.3g}</text>\n",
        at_x(tick), kPlotTop, kPlotBottom, kPlotBottom + 18, tick);
  }
  for (const double tick : plot_ticks(y)) {
    html += fmt::format(
        "<line class=\"grid\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.3g}</text>\n",
        at_y(tick), kPlotLeft, kPlotRight, kPlotLeft - 8, at_y(tick) + 4, tick);
  }
  html += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><text x=\"{}\" y=\"{}\">{}</text>\n", kPlotRight,
      kPlotBottom + 38, html_escaped(x_name), kPlotLeft - 40, kPlotTop - 14, html_escaped(y_name));
  for (const LogSeries& each : series) {
    if (each.line) {
      std::string path;
      for (const Point& point : each.points) {
        if (drawable(point))
          path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(point.x), at_y(point.y));
      }
      html += fmt::format("<path class=\"line {}{}{}\" d=\"{}\"/>\n", each.style, each.faint ? " faint" : "",
                          each.dashed ? " dashed" : "", path);
    }
    if (!each.dots) continue;
    for (const Point& point : each.points) {
      if (drawable(point))
        html += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", each.style,
                            at_x(point.x), at_y(point.y));
    }
  }
  return html + "</svg></div></figure>\n";
}

}  // namespace longhaul::observe
