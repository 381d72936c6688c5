// The heat maps of slow ranks: rank × phase, and next to it rank × step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/text.h"
#include "observe/format.h"
#include "observe/watch/live_page.h"

namespace longhaul::observe {
namespace {

constexpr size_t kShownRows = 24;
constexpr int kRowHeight = 24, kStripFrom = 500;  // the width from which there is room for steps

// From faster than the peers to slower: a CSS class for a colour, in distinguishable steps.
const char* colour_of(double z) {
  if (!std::isfinite(z)) return "h0";
  if (z > 8) return "h3";
  if (z > 4) return "h2";
  if (z > 2) return "h1";
  if (z < -8) return "c3";
  if (z < -4) return "c2";
  if (z < -2) return "c1";
  return "h0";
}

double worst_of(const LatencyMap::Row& row) { return std::isfinite(row.work_z) ? std::abs(row.work_z) : 0; }

// Of many rows the most conspicuous ones, in their order.
std::vector<const LatencyMap::Row*> shown_rows(const LatencyMap& map) {
  std::vector<const LatencyMap::Row*> rows;
  for (const auto& row : map.rows) rows.push_back(&row);
  if (rows.size() <= kShownRows) return rows;
  std::vector<double> distances;
  for (const auto* row : rows) distances.push_back(worst_of(*row));
  std::ranges::nth_element(distances, distances.begin() + kShownRows - 1, std::greater<>());
  const double limit = distances[kShownRows - 1];
  std::erase_if(rows, [&](const auto* row) { return worst_of(*row) < limit; });
  if (rows.size() > kShownRows) rows.resize(kShownRows);
  return rows;
}

// The strip of each rank's steps: one path per colour, so that thousands of fields stay small.
std::string strip(const std::vector<const LatencyMap::Row*>& rows, size_t steps, int head, int left,
                  int step) {
  std::map<std::string, std::string> paths;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int y = head + static_cast<int>(r) * kRowHeight + 2;
    for (size_t s = 0; s < steps; ++s) {
      const double relative = rows[r]->work_by_step[rows[r]->work_by_step.size() - steps + s];
      if (!std::isfinite(relative)) continue;
      paths[colour_of((relative - 1) / 0.025)] +=
          fmt::format("M{} {}h{}v{}h-{}z", left + static_cast<int>(s) * step, y, step, kRowHeight - 4, step);
    }
  }
  std::string svg;
  for (const auto& [colour, path] : paths) svg += fmt::format("<path class=\"{}\" d=\"{}\"/>", colour, path);
  return svg;
}

// On a phone there is only room for numbers.
std::string field_text(double seconds, bool narrow) {
  const double milliseconds = seconds * 1000;
  return narrow ? fixed(milliseconds, milliseconds < 9.95 ? 1 : 0) : milliseconds_text(milliseconds);
}

// Names of phases: horizontal if each has room, else all slanted.
struct Heads {
  bool slanted;
  int height;
};
Heads heads_of(const LatencyMap& map, int field) {
  size_t longest = 0;
  for (const std::string& phase : map.phases) longest = std::max(longest, phase.size());
  const int letters = static_cast<int>(longest) * 7;
  return letters <= field - 4 ? Heads{false, 24} : Heads{true, 20 + letters * 57 / 100};  // sin 35°
}

std::string heads_svg(const LatencyMap& map, const Heads& heads, int left, int field) {
  std::string svg;
  for (size_t p = 0; p < map.phases.size(); ++p) {
    const int x = left + field * static_cast<int>(p) + field / 2;
    svg +=
        heads.slanted
            ? fmt::format("<text class=\"slant\" transform=\"translate({},{}) rotate(-35)\">{}</text>", x,
                          heads.height - 6, html_escaped(map.phases[p]))
            : fmt::format("<text class=\"head\" x=\"{}\" y=\"15\">{}</text>", x, html_escaped(map.phases[p]));
  }
  return svg;
}

std::string row_svg(const LatencyMap& map, const LatencyMap::Row& row, int y, int left, int field,
                    bool narrow) {
  std::string name = fmt::format("rank {}", row.rank);
  if (!narrow && !row.place.node.empty()) name = row.place.node + " · " + fmt::to_string(row.rank);
  if (row.straggler) name = "▾ " + name;
  std::string svg =
      fmt::format("<a href=\"#rank-{}\"><text class=\"row{}\" x=\"{}\" y=\"{}\">{}</text>", row.rank,
                  row.straggler ? " slow" : "", left - 10, y + 16, html_escaped(brief(name, 26)));
  for (size_t p = 0; p < map.phases.size(); ++p) {
    if (!std::isfinite(row.seconds[p])) continue;
    const int x = left + field * static_cast<int>(p);
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"><title>rank {}, {}: {}, z "
        "{:+.1f}</title></rect>"
        "<text class=\"cell-text\" x=\"{}\" y=\"{}\">{}</text>",
        colour_of(row.z[p]), x + 1, y + 1, field - 2, kRowHeight - 2, row.rank, html_escaped(map.phases[p]),
        milliseconds_text(row.seconds[p] * 1000), row.z[p], x + field / 2, y + 16,
        field_text(row.seconds[p], narrow));
  }
  return svg + "</a>\n";
}

}  // namespace

std::string latency_picture(const LatencyMap& map, int width) {
  if (map.rows.empty()) {
    return "<div class=\"card\"><h2>Who is slow</h2><p class=\"note\">Times of each rank's phases come from "
           "the driver, or from recorded steps "
           "(<code>observe.trace_every=10</code>). This run has neither yet.</p></div>";
  }
  const auto rows = shown_rows(map);
  const auto stragglers = std::ranges::count(map.rows, true, &LatencyMap::Row::straggler);
  size_t longest = 8;
  for (const auto* row : rows) longest = std::max(longest, std::min<size_t>(26, row->place.node.size() + 8));
  const bool narrow = width < kStripFrom;
  const int left = narrow ? 64 : static_cast<int>(longest) * 7 + 14,
            phases = static_cast<int>(std::max<size_t>(1, map.phases.size()));
  const int field = std::clamp(((narrow ? width : width * 72 / 100) - left) / phases, narrow ? 34 : 47, 92);
  const Heads heads = heads_of(map, field);
  const int strip_left = left + field * phases + 14, strip_room = std::max(90, width - strip_left);
  const auto known = static_cast<int>(rows.front()->work_by_step.size());
  const int step = std::clamp(strip_room / std::max(1, known), 4, 14);
  const auto steps = static_cast<size_t>(std::min(known, strip_room / step));
  const int whole = narrow ? strip_left : strip_left + strip_room,
            height = heads.height + kRowHeight * static_cast<int>(rows.size()) + 4;
  std::string html = fmt::format(
      "<div class=\"card latency\"><h2>Who is slow</h2><p class=\"note\">Mean of each rank's phases over "
      "{}{}; colour: how far from the "
      "ranks that do the same work. {}{}</p><div class=\"scroll\"><svg width=\"{}\" height=\"{}\" "
      "viewBox=\"0 0 {} {}\" "
      "role=\"img\" aria-label=\"latency of ranks by phase\">",
      counted(map.measured_steps, "step"), narrow ? ", in milliseconds" : "",
      stragglers > 0 ? fmt::format("{} out.", counted(stragglers, "rank stands", "ranks stand"))
                     : "No rank stands out.",
      rows.size() < map.rows.size()
          ? fmt::format(" Of {} ranks the {} that stand out most.", map.rows.size(), rows.size())
          : "",
      whole, height, whole, height);
  html += heads_svg(map, heads, left, field);
  if (!narrow && steps > 7)
    html +=
        fmt::format("<text x=\"{}\" y=\"{}\">last {} steps →</text>", strip_left, heads.height - 6, steps);
  html += "\n";
  for (size_t r = 0; r < rows.size(); ++r)
    html += row_svg(map, *rows[r], heads.height + kRowHeight * static_cast<int>(r), left, field, narrow);
  if (!narrow) html += strip(rows, steps, heads.height, strip_left, step);
  html += "</svg></div><div class=\"share-keys\">";
  for (const auto& [style, text] :
       std::array<std::pair<const char*, const char*>, 4>{{{"c2", "faster than its peers"},
                                                           {"h0", "as its peers"},
                                                           {"h1", "slower, z > 2"},
                                                           {"h3", "z > 8"}}})
    html += fmt::format(
        "<span><svg width=\"11\" height=\"11\" "
        "style=\"display:inline-block;vertical-align:-1px;margin-right:6px;width:11px\"><rect class=\"{}\" "
        "width=\"11\" height=\"11\" rx=\"3\"/></svg>{}</span>",
        style, text);
  return html + "</div></div>";
}

}  // namespace longhaul::observe
