#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "observe/charts/chart.h"
#include "observe/charts/heat_map.h"
#include "observe/charts/log_plot.h"
#include "observe/format.h"
#include "plan/validation_report.h"

namespace longhaul::plan {
namespace {

using observe::html_escaped;

// What a row proves, and its colour in both pictures.
struct Kind {
  const char *name, *style;
};
constexpr Kind kKinds[] = {{"held out: tensor ranks and pipelines", "train"},
                           {"held out: experts", "xz"},
                           {"held out: weights cut over data ranks, or apart", "eval"},
                           {"constants fitted on", "save"},
                           {"reach or overlap fitted on", "gzip"}};

size_t kind_of(const PublishedRow& row) {
  if (row.use == RowUse::kConstants) return 3;
  if (row.use == RowUse::kReach || row.use == RowUse::kOverlap) return 4;
  return !row.judged() ? 2 : row.dense ? 0 : 1;
}

std::string scatter() {
  observe::LogPlot plot{.title = "Published and predicted steps",
                        .caption = "A dot is a row; on the dashed line both are the same.",
                        .x_name = "published, s",
                        .y_name = "predicted, s",
                        .series = {}};
  for (const Kind& kind : kKinds)
    plot.series.push_back({.name = kind.name, .style = kind.style, .points = {}, .dots = true});
  double least = 1e30, most = 0;
  for (const PublishedRow& row : published_rows()) {
    plot.series[kind_of(row)].points.push_back({row.seconds, predicted(row)});
    least = std::min(least, row.seconds), most = std::max(most, row.seconds);
  }
  plot.series.push_back(
      {.name = {}, .style = "save", .points = {{least, least}, {most, most}}, .line = true, .dashed = true});
  return plot.html();
}

// A line for each family, a dot for each of its rows at how much too slow it is predicted; the band is 10 %.
std::string errors_picture() {
  std::vector<PublishedGroup> families;
  for (const PublishedRow& row : published_rows()) {
    auto family = std::ranges::find(families, row.family, &PublishedGroup::name);
    if (family == families.end()) family = families.insert(families.end(), {row.family, {}});
    family->rows.push_back(row);
  }
  constexpr double kLeft = 240, kRight = 1040, kRow = 30, kTop = 8, kMost = 60;  // percent
  const auto x = [&](double percent) {
    return kLeft + (kRight - kLeft) * (std::clamp(percent, -kMost, kMost) + kMost) / (2 * kMost);
  };
  const double bottom = kTop + kRow * static_cast<double>(families.size());
  std::string svg = fmt::format("<svg viewBox=\"0 0 1080 {:.0f}\" role=\"img\">\n", bottom + 24);
  svg += fmt::format(
      "<rect style=\"fill:var(--grid)\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", x(-10),
      kTop, x(10) - x(-10), bottom - kTop);
  for (int tick = -60; tick <= 60; tick += 20) {
    svg += fmt::format(
        "<line class=\"{4}\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/><text x=\"{0:.1f}\" "
        "y=\"{3:.1f}\" text-anchor=\"middle\">{5} %</text>\n",
        x(tick), kTop, bottom, bottom + 18, tick == 0 ? "axis" : "grid",
        tick == 0 ? "0" : fmt::format("{:+d}", tick));
  }
  for (size_t i = 0; i < families.size(); ++i) {
    const double y = kTop + kRow * (static_cast<double>(i) + 0.5);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 12, y + 4,
                       html_escaped(families[i].name));
    for (const PublishedRow& row : families[i].rows) {
      const double error = 100 * (predicted(row) / row.seconds - 1);
      svg += fmt::format(
          "<circle class=\"dot\" style=\"color:var(--{})\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}: "
          "{:+.1f} %</title></circle>",
          kKinds[kind_of(row)].style, x(error), y, html_escaped(row.name), error);
    }
    svg += "\n";
  }
  return fmt::format(
      "<figure class=\"picture\"><figcaption><h3>Errors by family</h3><p>Predicted over published, less one: "
      "to the right too slow. Grey: 10 % either "
      "way. What is further out than {:.0f} % stands at the edge.</p></figcaption><div "
      "class=\"scroll\">{}</svg></div></figure>\n",
      kMost, svg);
}

std::string groups_table() {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedGroup& group : published_groups()) {
    const Errors errors = errors_of(group.rows);
    rows.push_back({group.name, std::to_string(errors.rows), observe::percent(errors.mean),
                    observe::percent(errors.worst)});
  }
  return observe::page_table("Errors", "", {"rows", "count", "mean", "worst"}, 1, rows);
}

std::string rows_table() {
  std::vector<std::vector<std::string>> rows;
  for (const PublishedRow& row : published_rows()) {
    const double seconds = predicted(row);
    rows.push_back({row.family, row.name, use_text(row),
                    row.apart.empty() ? row.assumed : fmt::format("{}; apart: {}", row.assumed, row.apart),
                    fmt::format("{:.3f} s", row.seconds), fmt::format("{:.3f} s", seconds),
                    fmt::format("{:+.1f} %", 100 * (seconds / row.seconds - 1))});
  }
  return observe::page_table("Row by row", "",
                             {"family", "row", "use", "assumed", "published", "predicted", "error"}, 4, rows);
}

}  // namespace

std::string validation_page() {
  observe::ResultPage page{
      .title = "Published steps, predicted",
      .kicker = "plan validate",
      .summary =
          "Steps of trainings that others have published, beside what the planner's formulas say of them.",
      .tiles = {},
      .maps = {},
      .body = fmt::format("<style>{}</style>", observe::kLogPlotStyle),
      .facts = {},
      .facts_title = "What it stands on"};
  const auto groups = published_groups();
  for (size_t i = 0; i < 4; ++i) {
    const Errors errors = errors_of(groups[i].rows);
    page.tiles.emplace_back(
        groups[i].name + ": mean, worst",
        fmt::format("{}, {}", observe::percent(errors.mean), observe::percent(errors.worst)));
  }
  page.body += scatter() + errors_picture() + groups_table() + rows_table();
  page.facts = {{"held out",
                 "no constant was set with these rows; what papers do not say is assumed once for a family"},
                {"held out, in sight",
                 "a reading or the form of a formula was chosen with these rows' errors in sight (plan "
                 "validate --json says which)"},
                {"method and limits", "docs/guides/plan.md"}};
  return page.html();
}

}  // namespace longhaul::plan
