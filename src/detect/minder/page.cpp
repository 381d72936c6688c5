#include "detect/minder/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"
#include "observe/charts/chart.h"
#include "observe/report/report_page.h"

namespace longhaul::detect {
namespace {

using observe::html_escaped;
using observe::Point;

constexpr size_t kBuckets = 260;     // of the horizontal axis
constexpr int64_t kShownPeers = 24;  // drawn in the background; the median is over all peers
constexpr std::string_view kPageStyle =
    "<style>.line.suspect{color:var(--bad);stroke-width:2.1}.line.peers{color:var(--save)}.line.rest{color:"
    "var(--train)}"
    ".key.suspect i{color:var(--bad)}.key.rest i{color:var(--train)}</style>";

std::vector<Point> line_of(const Pull& pull, size_t metric_at, int64_t machine, const Limits& limits) {
  std::vector<Point> points;
  for (int64_t s = 0; s < pull.seconds; ++s) {
    const auto share = static_cast<double>(pull.row(metric_at, s)[machine]);
    points.push_back({static_cast<double>(s), limits.low + share * (limits.high - limits.low)});
  }
  return points;
}

std::vector<Point> median_of_others(const Pull& pull, size_t metric_at, int64_t suspect,
                                    const Limits& limits) {
  std::vector<Point> points;
  std::vector<float> others;
  for (int64_t s = 0; s < pull.seconds; ++s) {
    others.clear();
    for (int64_t i = 0; i < pull.count(); ++i) {
      if (i != suspect && !std::isnan(pull.row(metric_at, s)[i]) &&
          pull.class_of[static_cast<size_t>(i)] == pull.class_of[static_cast<size_t>(suspect)])
        others.push_back(pull.row(metric_at, s)[i]);
    }
    if (others.empty()) continue;
    const auto middle = others.begin() + static_cast<std::ptrdiff_t>(others.size() / 2);
    std::nth_element(others.begin(), middle, others.end());
    points.push_back(
        {static_cast<double>(s), limits.low + static_cast<double>(*middle) * (limits.high - limits.low)});
  }
  return points;
}

observe::Chart chart_of(const Pull& pull, size_t metric_at, int64_t suspect, const Limits& limits,
                        const std::vector<Alert>& alerts) {
  const Metric& metric = metrics()[pull.metrics[metric_at]];
  observe::Chart chart{.id = std::string(metric.name),
                       .title = std::string(metric.name),
                       .unit = std::string(metric.unit),
                       .width = 520,
                       .height = 230,
                       .x_max = static_cast<double>(std::max<int64_t>(1, pull.seconds - 1)),
                       .tick_form = observe::NumberForm::kFixed3};
  double low = limits.high, high = limits.low;
  const auto add = [&](std::string name, const char* style, const std::vector<Point>& points, bool faint) {
    for (const Point& point : points) {
      if (std::isfinite(point.y)) low = std::min(low, point.y), high = std::max(high, point.y);
    }
    chart.series.push_back({.name = std::move(name),
                            .style = style,
                            .points = observe::thinned(points, kBuckets),
                            .form = observe::NumberForm::kFixed3,
                            .faint = faint});
  };
  const int64_t every = std::max<int64_t>(1, pull.count() / kShownPeers);
  for (int64_t i = 0; i < pull.count(); i += every) {
    if (i != suspect) add("", "peers", line_of(pull, metric_at, i, limits), true);
  }
  add("median of the others", "rest", median_of_others(pull, metric_at, suspect, limits), false);
  add(pull.machines[static_cast<size_t>(suspect)], "suspect", line_of(pull, metric_at, suspect, limits),
      false);
  const double margin = std::max(0.04 * (high - low), 0.005 * (limits.high - limits.low));
  chart.y_low = std::max(limits.low, low - margin),
  chart.y_high = std::min(limits.high * 1.02, high + margin);
  for (const Alert& alert : alerts) {
    if (alert.metric == metric.name || alert.metric == kNoData)
      chart.marks.push_back({.x = alert.first_s - pull.first_s,
                             .title = fmt::format("furthest from second {:.0f} on", alert.first_s),
                             .style = "bad",
                             .through = true});
  }
  return chart;
}

std::string alerts_text(const std::vector<Alert>& alerts) {
  if (alerts.empty()) return "<p class=\"note\">No alert names this machine.</p>";
  std::string html;
  for (const Alert& alert : alerts) {
    html +=
        alert.metric == kNoData
            ? fmt::format(
                  "<p class=\"note\">It has sent nothing since second {:.0f}, while the others went on.</p>",
                  alert.first_s)
            : fmt::format(
                  "<p class=\"note\">Furthest from its peers in <b>{}</b> from second {:.0f} on, told at "
                  "second {:.0f}; score {:.2f} of at most 1.</p>",
                  html_escaped(alert.metric), alert.first_s, alert.raised_s, alert.score);
  }
  return html;
}

}  // namespace

std::string suspect_page(const Pull& pull, const RunReport& report, const std::string& suspect,
                         const Models& models, const std::string& title) {
  const auto at = std::find(pull.machines.begin(), pull.machines.end(), suspect) - pull.machines.begin();
  std::vector<Alert> own;
  std::copy_if(report.alerts.begin(), report.alerts.end(), std::back_inserter(own),
               [&](const Alert& alert) { return alert.machine == suspect; });
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{}</title>"
      "<style>{}</style>{}</head><body>\n<header><div class=\"kicker\">faulty "
      "machine</div><h1>{}</h1><p><span class=\"status {}\">{}</span>{}, {}, "
      "from second {:.0f} on <span id=\"step\"></span></p></header>\n",
      html_escaped(suspect), observe::kReportStyle, kPageStyle, html_escaped(suspect),
      own.empty() ? "good" : "bad", own.empty() ? "no alert" : "alert", html_escaped(title),
      counted(pull.count(), "machine"), pull.first_s);
  html += alerts_text(own) + "<div class=\"charts\">\n";
  for (size_t m = 0; m < pull.metrics.size(); ++m)
    html += chart_of(pull, m, at, models.limits[pull.metrics[m]], own).html();
  html += "</div>\n";
  if (!report.not_judged.empty()) {
    html += "<section><h2>What could not be judged</h2>";
    for (const std::string& sentence : report.not_judged)
      html += "<p class=\"note\">" + html_escaped(sentence) + "</p>";
    html += "</section>\n";
  }
  html += fmt::format(
      "<footer>Grey: up to {} of the other machines. Horizontal: seconds since second {:.0f}. The page says "
      "which machine differs, not why.</footer>",
      kShownPeers, pull.first_s);
  return html + fmt::format("<script>{}</script>\n</body></html>\n", observe::kReportScript);
}

}  // namespace longhaul::detect
