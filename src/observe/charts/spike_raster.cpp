#include "observe/charts/spike_raster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "observe/charts/chart.h"

namespace longhaul::observe {
namespace {

constexpr int64_t kColumn = 4, kRow = 6, kLeft = 12, kAbove = 44, kBelow = 10;  // pixels
constexpr std::string_view kRasterStyle =
    "svg{background:#fff;font:11px sans-serif;fill:#222}.plus{fill:#1f5fa8}.minus{fill:#b8432f}"
    ".edge{stroke:#bbb;stroke-width:1}.token{font-size:9px;fill:#666}h1{font-size:14px}";

int64_t columns_of(const SpikePanel& panel) {
  return std::accumulate(panel.steps.begin(), panel.steps.end(), int64_t{0});
}
int64_t height_of(const SpikePanel& panel) { return kAbove + panel.channels * kRow + kBelow; }

std::string tokens_of(const SpikePanel& panel, int64_t top) {
  std::string svg;
  int64_t column = 0;
  for (size_t t = 0; t <= panel.steps.size(); ++t) {
    const int64_t x = kLeft + column * kColumn;
    svg += fmt::format("<line class=\"edge\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>\n", x,
                       top + kAbove - 4, top + kAbove + panel.channels * kRow);
    if (t == panel.steps.size()) break;
    svg += fmt::format("<text class=\"token\" x=\"{}\" y=\"{}\">{}</text>\n", x + 2, top + kAbove - 6,
                       html_escaped(panel.tokens[t]));
    column += panel.steps[t];
  }
  return svg;
}

std::string panel_svg(const SpikePanel& panel, int64_t top) {
  std::string svg = fmt::format("<text x=\"{}\" y=\"{}\">{}, {} channels, {} spikes</text>\n", kLeft,
                                top + 18, html_escaped(panel.name), panel.channels, panel.spikes.size());
  svg += tokens_of(panel, top);
  for (const Spike& spike : panel.spikes) {
    const int64_t y = top + kAbove + spike.channel * kRow + (spike.sign > 0 ? 0 : kRow / 2);
    svg += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                       spike.sign > 0 ? "plus" : "minus", kLeft + spike.column * kColumn + 1, y, kColumn - 1,
                       kRow / 2);
  }
  return svg;
}

}  // namespace

std::string spike_raster_svg(const std::string& title, const std::vector<SpikePanel>& panels) {
  int64_t width = 40, height = 28;
  for (const SpikePanel& panel : panels) {
    width = std::max(width, 2 * kLeft + columns_of(panel) * kColumn);
    height += height_of(panel);
  }
  width = std::max(width, 2 * kLeft + 8 * static_cast<int64_t>(title.size()));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\">\n"
      "<style>{2}</style>\n<title>{3}</title>\n<text x=\"{4}\" y=\"20\">{3}</text>\n",
      width, height, kRasterStyle, html_escaped(title), kLeft);
  int64_t top = 28;
  for (const SpikePanel& panel : panels) {
    svg += panel_svg(panel, top);
    top += height_of(panel);
  }
  return svg + "</svg>\n";
}

}  // namespace longhaul::observe
