// One chart as inline SVG: axes, ticks, lines, horizontal references and marks. It also carries its points as
// JSON, which the page's script uses to show values under the pointer; without scripts the chart is complete
// but static.
//
//   Chart chart{.id = "loss", .title = "Loss", .width = 1080, .height = 380};
//   chart.series.push_back({.name = "training", .style = "train", .points = thinned(points, 500)});
//   html += chart.html();
//
// Colours are CSS classes, so that light and dark schemes share the picture. Points that are not finite break
// a line.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::observe {

struct Point {
  double x = 0, y = 0;
};

// Thins to about 2 · buckets points at most: the least and the greatest of each bucket, in order, so that no
// spike is lost.
std::vector<Point> thinned(std::span<const Point> points, size_t buckets);
// Mean and median over `window` points around each of at most 1,000 places; points that are not finite are
// left out.
std::vector<Point> smoothed(std::span<const Point> points, double window);
std::vector<Point> running_median(std::span<const Point> points, double window);
// Round numbers (1, 2 or 5 times a power of ten) inside [low, high], about `count` of them.
std::vector<double> linear_ticks(double low, double high, int count);
std::vector<double> log_ticks(double low, double high);
std::string tick_text(double value, double step);  // as many decimals as ticks `step` apart need
// Control characters other than tab and newline become U+FFFD.
std::string html_escaped(std::string_view text);

enum class NumberForm { kFixed4, kFixed3, kScientific, kGrouped, kMilliseconds, kPercent };

struct Series {
  std::string name;   // in the legend
  std::string style;  // CSS class: its colour
  std::vector<Point> points;
  NumberForm form = NumberForm::kFixed4;
  bool faint = false;   // a thin line behind another of the same colour, without a legend entry
  bool dots = false;    // a dot on every point
  bool filled = false;  // down to the axis
  // Points are drawn at y / scale, so that a series in the unit of the right axis has its ratio here.
  double scale = 1;
};

struct Reference {  // a horizontal line
  double y = 0;
  std::string label, style;
};

struct Mark {  // an event at a step: a tick on the axis, or a line through the chart
  double x = 0;
  std::string title, style;  // style: save, resume, bad
  bool through = false;
};

struct Chart {
  std::string id, title, unit;
  int width = 520, height = 250;
  double x_max = 1;
  double y_low = 0, y_high = 1;
  bool log_y = false;
  NumberForm tick_form = NumberForm::kFixed4;
  std::vector<Series> series;
  std::vector<Reference> references;
  std::vector<Mark> marks;
  double right_ratio = 0;  // right axis = left · ratio; 0: none
  std::string right_unit;
  bool right_percent = false;
  std::string caption;  // a remark below the title

  std::string html() const;

 private:
  struct Frame;
  std::string axes(const Frame& frame) const;
  std::string lines(const Frame& frame) const;
  std::string marks_svg(const Frame& frame) const;
  std::string legend() const;
  std::string data_json(const Frame& frame) const;
};

}  // namespace longhaul::observe
