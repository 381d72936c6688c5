#include "observe/charts/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "observe/format.h"

namespace longhaul::observe {
namespace {

std::string number_text(double value, NumberForm form) {
  switch (form) {
    case NumberForm::kFixed4:
      return fixed(value, 4);
    case NumberForm::kFixed3:
      return fixed(value, 3);
    case NumberForm::kScientific:
      return scientific(value);
    case NumberForm::kGrouped:
      return grouped(value);
    case NumberForm::kMilliseconds:
      return milliseconds_text(value);
    case NumberForm::kPercent:
      return percent(value);
  }
  return {};
}

constexpr std::string_view name_of(NumberForm form) {
  switch (form) {
    case NumberForm::kFixed4:
      return "fixed4";
    case NumberForm::kFixed3:
      return "fixed3";
    case NumberForm::kScientific:
      return "scientific";
    case NumberForm::kGrouped:
      return "grouped";
    case NumberForm::kMilliseconds:
      return "milliseconds";
    case NumberForm::kPercent:
      return "percent";
  }
  return "";
}

// Ticks of exponents read as 2e-4; times carry their unit.
std::string axis_text(double value, double step, NumberForm form) {
  if (form == NumberForm::kMilliseconds) {
    return value == 0                ? "0"
           : std::abs(value) >= 1000 ? fmt::format("{:g} s", value / 1000)
                                     : fmt::format("{:g} ms", value);
  }
  if (form == NumberForm::kPercent) return fmt::format("{:g} %", value * 100);
  if (form == NumberForm::kScientific && value != 0) {
    const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
    return fmt::format("{:.2g}e{}", value / std::pow(10, exponent), exponent);
  }
  return tick_text(value, step);
}

}  // namespace

// The drawing area in the picture's units and the mapping onto it.
struct Chart::Frame {
  const Chart& chart;
  double left, right, top, bottom;

  explicit Frame(const Chart& of)
      : chart(of),
        left(52),
        right(of.width - (of.right_ratio > 0 ? 50 : 22)),
        top(of.right_ratio > 0 ? 24 : 14),
        bottom(of.height - 28) {}
  double x(double value) const { return left + (right - left) * value / chart.x_max; }
  double y(double value) const {
    double share = (value - chart.y_low) / (chart.y_high - chart.y_low);
    if (chart.log_y) share = std::log(value / chart.y_low) / std::log(chart.y_high / chart.y_low);
    // clipped; kept within what SVG viewers draw
    return bottom - (bottom - top) * std::clamp(share, -0.5, 2.0);
  }
  bool drawable(const Point& p) const {
    return std::isfinite(p.x) && std::isfinite(p.y) && (!chart.log_y || p.y > 0);
  }
};

std::string Chart::axes(const Frame& f) const {
  std::string svg;
  const auto ticks = log_y ? log_ticks(y_low, y_high) : linear_ticks(y_low, y_high, height > 300 ? 7 : 4);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : y_high - y_low;
  for (const double tick : ticks) {
    svg += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                       f.left, f.right, f.y(tick), f.y(tick));
    svg += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       f.left - 8, f.y(tick) + 3.5, axis_text(tick, log_y ? tick : step, tick_form));
  }
  if (right_ratio > 0) {
    const auto right_ticks = linear_ticks(y_low * right_ratio, y_high * right_ratio, height > 300 ? 7 : 4);
    const double right_step = right_ticks.size() > 1 ? right_ticks[1] - right_ticks[0] : 1;
    for (const double tick : right_ticks) {
      const double y = f.y(tick / right_ratio);
      svg += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                         f.right, f.right + 4, y, y);
      svg += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", f.right + 8, y + 3.5,
                         right_percent ? fmt::format("{:g} %", std::abs(std::round(tick * 1e6) / 1e4))
                                       : tick_text(tick, right_step));
    }
  }
  for (const double tick : linear_ticks(0, x_max, width > 700 ? 10 : 5)) {
    if (tick != std::floor(tick)) continue;  // there is no half step
    svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>",
                       f.x(tick), f.bottom, f.bottom + 4);
    svg += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       f.x(tick), f.bottom + 18, tick_text(tick, 1));
  }
  return svg + fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                           f.left, f.right, f.bottom, f.bottom);
}

std::string Chart::lines(const Frame& f) const {
  std::string svg;
  for (const Series& s : series) {
    std::string path, dots_svg;
    size_t run_begin = 0;  // of points without a break
    const auto& p = s.points;
    for (size_t i = 0; i < p.size(); ++i) {
      if (!f.drawable(p[i])) {
        run_begin = i + 1;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", i == run_begin ? "M" : "L", f.x(p[i].x), f.y(p[i].y / s.scale));
      const bool alone = i == run_begin && (i + 1 == p.size() || !f.drawable(p[i + 1]));
      if (s.dots || (alone && !s.faint)) {
        dots_svg += fmt::format(
            "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\"><title>step {}: {} "
            "{}</title></circle>",
            s.style, f.x(p[i].x), f.y(p[i].y / s.scale), grouped(p[i].x), html_escaped(s.name),
            number_text(p[i].y, s.form));
      }
    }
    if (path.empty()) continue;
    if (s.filled && run_begin == 0) {
      svg += fmt::format("<path class=\"area {}\" d=\"{}L{:.1f} {:.1f}L{:.1f} {:.1f}Z\"/>", s.style, path,
                         f.x(p.back().x), f.bottom, f.x(p.front().x), f.bottom);
    }
    svg += fmt::format("<path class=\"line {}{}\" d=\"{}\"/>", s.style, s.faint ? " faint" : "", path) +
           dots_svg;
  }
  return svg;
}

std::string Chart::marks_svg(const Frame& f) const {
  std::string svg;
  double taken = -100;  // y of the label above, so that close lines do not write over each other
  std::vector<Reference> sorted = references;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.y > b.y; });
  for (const Reference& r : sorted) {
    const double y = f.y(r.y), label_y = std::max(y - 5, taken + 13);
    svg +=
        fmt::format("<line class=\"reference {}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                    r.style, f.left, f.right, y, y);
    svg += fmt::format("<text class=\"label {}\" text-anchor=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                       r.style, f.right - 6, label_y, html_escaped(r.label));
    taken = label_y;
  }
  for (const Mark& m : marks) {
    const double x = f.x(m.x), b = f.bottom;
    if (m.through) {
      svg += fmt::format("<line class=\"mark {}\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                         m.style, x, x, f.top, b);
    }
    svg +=
        fmt::format("<path class=\"flag {}\" d=\"M{:.1f} {:.1f}l4 -5l-4 -5l-4 5z\"><title>{}</title></path>",
                    m.style, x, b + 5, html_escaped(m.title));
  }
  return svg;
}

std::string Chart::legend() const {
  std::string html;
  for (size_t i = 0; i < series.size(); ++i) {
    const Series& s = series[i];
    if (s.faint) continue;
    double last = std::nan("");
    for (const Point& p : s.points) last = std::isfinite(p.y) ? p.y : last;
    html += fmt::format("<span class=\"key {}\"><i></i>{} <output data-series=\"{}\">{}</output></span>",
                        s.style, html_escaped(s.name), i, number_text(last, s.form));
  }
  return html;
}

// Hidden in a script element: "<" is written as an escape so that no text can end it.
std::string Chart::data_json(const Frame& f) const {
  std::string json = fmt::format("{{\"width\":{},\"left\":{},\"right\":{},\"x_max\":{:.9g},\"series\":[",
                                 width, f.left, f.right, x_max);
  for (size_t i = 0; i < series.size(); ++i) {
    json += fmt::format("{}{{\"form\":\"{}\",\"x\":[", i ? "," : "", name_of(series[i].form));
    std::string xs, ys;
    for (const Point& p : series[i].points) {
      if (series[i].faint || !std::isfinite(p.y)) continue;
      xs += fmt::format("{}{:.9g}", xs.empty() ? "" : ",", p.x);
      ys += fmt::format("{}{:.6g}", ys.empty() ? "" : ",", p.y);
    }
    json += xs + "],\"y\":[" + ys + "]}";
  }
  return json + "]}";
}

std::string Chart::html() const {
  const Frame frame(*this);
  std::string html = fmt::format(
      "<figure class=\"chart{}\" id=\"{}\">\n<figcaption><h3>{} <small>{}</small></h3><div "
      "class=\"keys\">{}</div>",
      width > 700 ? " wide" : "", id, html_escaped(title), html_escaped(unit), legend());
  if (!caption.empty()) html += fmt::format("<p>{}</p>", html_escaped(caption));
  html += fmt::format(
      "</figcaption>\n<div class=\"scroll\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
      width, height, html_escaped(title));
  html += fmt::format(
      "<clipPath id=\"clip-{}\"><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\"/></clipPath>",
      id, frame.left, frame.top - 4, frame.right - frame.left + 4, frame.bottom - frame.top + 4);
  html += axes(frame);
  html += fmt::format("<g clip-path=\"url(#clip-{})\">{}</g>{}", id, lines(frame), marks_svg(frame));
  if (right_ratio > 0) {
    html += fmt::format("<text class=\"unit\" text-anchor=\"end\" x=\"{}\" y=\"10\">{}</text>", width - 2,
                        html_escaped(right_unit));
  }
  html += fmt::format("<line class=\"cross\" x1=\"0\" x2=\"0\" y1=\"{:.1f}\" y2=\"{:.1f}\"/></svg></div>\n",
                      frame.top, frame.bottom);
  html += fmt::format("<script type=\"application/json\">{}</script>\n</figure>\n", data_json(frame));
  return html;
}

}  // namespace longhaul::observe
