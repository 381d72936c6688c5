#include "observe/charts/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "observe/charts/chart.h"
#include "observe/report/report_page.h"

namespace longhaul::observe {
namespace {

constexpr int kHeatFieldHeight = 34, kHeatTop = 30, kHeatTextWidth = 7;

// In addition to the report's styles: fields mix the paper's colour with one hue.
constexpr std::string_view kHeatStyle = R"css(
.heat rect{fill:color-mix(in oklab,var(--card) calc(100% - var(--v)*88%),var(--train));stroke:var(--card);stroke-width:2}
.heat text.value{text-anchor:middle;fill:var(--ink);font-size:12.5px}.heat text.value.strong{fill:var(--card)}
.heat text.row{text-anchor:end}.heat text.column{text-anchor:middle}.heat text.axis{stroke:none;font-style:italic}
.heat svg{max-width:100%;width:auto}.heats .picture{overflow-x:auto}
)css";

}  // namespace

std::string HeatMap::html() const {
  size_t longest = row_axis.size() + column_axis.size() + 4;  // the axis names are in the corner
  for (const std::string& row : rows) longest = std::max(longest, row.size());
  size_t widest = 6;
  for (const std::string& column : columns) widest = std::max(widest, column.size());
  const int left = static_cast<int>(longest) * kHeatTextWidth + 24;
  const int field = std::clamp(static_cast<int>(widest) * kHeatTextWidth + 18, 62, 160);
  const int width = left + field * static_cast<int>(columns.size()) + 4,
            height = kHeatTop + kHeatFieldHeight * static_cast<int>(rows.size()) + 6;
  std::string html =
      fmt::format("<figure class=\"picture heat\"><figcaption><h3>{}</h3>", html_escaped(title));
  if (!caption.empty()) html += fmt::format("<p>{}</p>", html_escaped(caption));
  html += fmt::format(
      "</figcaption>\n<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" style=\"min-width:0\" "
      "role=\"img\">\n",
      width, height);
  html += fmt::format("<text class=\"row axis\" x=\"{}\" y=\"{}\">{} ↓ &#160; {} →</text>\n", left - 10,
                      kHeatTop - 12, html_escaped(row_axis), html_escaped(column_axis));
  for (size_t c = 0; c < columns.size(); ++c) {
    html +=
        fmt::format("<text class=\"column\" x=\"{}\" y=\"{}\">{}</text>\n",
                    left + field * static_cast<int>(c) + field / 2, kHeatTop - 12, html_escaped(columns[c]));
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const int y = kHeatTop + kHeatFieldHeight * static_cast<int>(r);
    html += fmt::format("<text class=\"row\" x=\"{}\" y=\"{}\">{}</text>\n", left - 10, y + 21,
                        html_escaped(rows[r]));
    for (size_t c = 0; c < columns.size(); ++c) {
      const double value = values[r][c];
      if (!std::isfinite(value)) continue;
      const int x = left + field * static_cast<int>(c);
      const double shade = std::clamp(value, 0.0, 1.0);
      html += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"--v:{:.3f}\"><title>{}, {}: "
          "{:.4f}</title></rect>"
          "<text class=\"value{}\" x=\"{}\" y=\"{}\">{:.1f}</text>\n",
          x, y, field, kHeatFieldHeight, shade, html_escaped(rows[r]), html_escaped(columns[c]), value,
          shade > 0.55 ? " strong" : "", x + field / 2, y + 21, 100 * value);
    }
  }
  return html + "</svg></figure>\n";
}

std::string page_table(const std::string& title, const std::string& note,
                       const std::vector<std::string>& columns, size_t numbers_from,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string html = fmt::format("<section><h2>{}</h2>", html_escaped(title));
  if (!note.empty()) html += fmt::format("<p class=\"note\">{}</p>", html_escaped(note));
  html += "<div class=\"table\"><table>\n";
  constexpr size_t kOneLine = 24;  // shorter cells are not broken
  const auto line = [&](const char* tag, const std::vector<std::string>& cells) {
    html += "<tr>";
    for (size_t c = 0; c < cells.size(); ++c)
      html += fmt::format("<{0}{1}>{2}</{0}>", tag,
                          c >= numbers_from            ? " class=\"n\""
                          : cells[c].size() < kOneLine ? " class=\"key\""
                                                       : "",
                          html_escaped(cells[c]));
    html += "</tr>\n";
  };
  line("th", columns);
  for (const auto& row : rows) line("td", row);
  return html + "</table></div></section>\n";
}

std::string ResultPage::html() const {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{} · "
      "Longhaul</title>\n<style>{}{}</style></head>\n<body>\n",
      html_escaped(title), kReportStyle, kHeatStyle);
  html += fmt::format("<header><div class=\"kicker\">{}</div><h1>{}</h1><p>{}</p></header>\n",
                      html_escaped(kicker), html_escaped(title), html_escaped(summary));
  if (!tiles.empty()) {
    html += "<div class=\"tiles\">";
    for (const auto& [name, number] : tiles)
      html += fmt::format("<div class=\"tile\"><span class=\"name\">{}</span><b>{}</b></div>",
                          html_escaped(name), html_escaped(number));
    html += "</div>\n";
  }
  html += "<div class=\"heats\">";
  for (const HeatMap& map : maps) html += map.html();
  html += "</div>\n" + body;
  html += fmt::format("<section><h2>{}</h2><div class=\"table\"><table>\n", html_escaped(facts_title));
  for (const auto& [name, value] : facts)
    html += fmt::format("<tr><td class=\"dim\">{}</td><td>{}</td></tr>\n", html_escaped(name),
                        html_escaped(value));
  return html +
         "</table></div></section>\n<footer>Made by Longhaul. The page is one file and needs nothing "
         "else.</footer>\n</body></html>\n";
}

}  // namespace longhaul::observe
