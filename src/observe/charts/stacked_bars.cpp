#include "observe/charts/stacked_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "observe/charts/chart.h"

namespace longhaul::observe {
namespace {

constexpr double kBarsRight = 960, kBarHeight = 26, kBarStep = 36, kBarsTop = 22, kLetter = 6.3;

std::string fill_of(const StackedPart& part) {
  return fmt::format("fill:var(--{});fill-opacity:{:g}", part.colour, part.strength);
}

// The position of a value between the least and the greatest x.
struct BarScale {
  double left, most;
  double at(double value) const { return left + (kBarsRight - left) * value / most; }
};

std::string one_bar(const StackedBars& of, const StackedBar& bar, const BarScale& x, double y) {
  std::string svg = fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", x.left - 10,
                                y + 17, html_escaped(bar.name));
  double before = 0;
  for (size_t i = 0; i < of.parts.size(); ++i) {
    const double value = bar.values[i], from = x.at(before), width = x.at(before + value) - from;
    before += value;
    if (width < 0.2) continue;
    svg += fmt::format(
        "<rect class=\"box\" style=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{}\"><title>{}: {:.3g} {}</title></rect>",
        fill_of(of.parts[i]), from, y, width, kBarHeight, html_escaped(of.parts[i].name), value,
        html_escaped(of.unit));
    const std::string number = fmt::format("{:.2g}", value);
    if (width > 14 + kLetter * static_cast<double>(number.size())) {
      svg += fmt::format(
          "<text class=\"number\" style=\"fill:{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
          "text-anchor=\"middle\">{}</text>",
          of.parts[i].strength > 0.7 ? "var(--card)" : "var(--ink)", from + width / 2, y + 17, number);
    }
  }
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kBarsRight + 12, y + 17,
                           html_escaped(bar.total));
}

}  // namespace

std::string StackedBars::html() const {
  size_t longest = 4;
  double most = limit;
  for (const StackedBar& bar : bars) {
    LONGHAUL_ASSERT(bar.values.size() == parts.size(), "{} values of {} parts", bar.values.size(),
                    parts.size());
    longest = std::max(longest, bar.name.size());
    most = std::max(most, std::accumulate(bar.values.begin(), bar.values.end(), 0.0));
  }
  std::string html =
      fmt::format("<figure class=\"picture\"><figcaption><h3>{} <small>{}</small></h3><div class=\"keys\">",
                  html_escaped(title), html_escaped(unit));
  for (const StackedPart& part : parts)
    html += fmt::format(
        "<span class=\"key\"><i class=\"swatch\" style=\"background:var(--{});opacity:{:g}\"></i>{}</span>",
        part.colour, part.strength, html_escaped(part.name));
  html += fmt::format("</div><p>{}</p></figcaption>\n", html_escaped(caption));
  if (!(most > 0)) return html + "<p class=\"note\">There is nothing to draw.</p></figure>\n";
  const BarScale x{.left = kLetter * static_cast<double>(longest) + 16, .most = most};
  const double bottom = kBarsTop + kBarStep * static_cast<double>(bars.size());
  html += fmt::format("<div class=\"scroll\"><svg viewBox=\"0 0 1080 {:.0f}\" role=\"img\">\n", bottom + 24);
  const auto ticks = linear_ticks(0, most, 6);
  for (const double tick : ticks) {
    html += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/><text x=\"{0:.1f}\" "
        "y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x.at(tick), kBarsTop - 4, bottom, bottom + 16,
        tick_text(tick, ticks.size() > 1 ? ticks[1] - ticks[0] : 1));
  }
  for (size_t i = 0; i < bars.size(); ++i)
    html += one_bar(*this, bars[i], x, kBarsTop + kBarStep * static_cast<double>(i));
  if (limit > 0) {
    html += fmt::format(
        "<line style=\"stroke:var(--bad);stroke-dasharray:5 4\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" "
        "y2=\"{2:.1f}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" style=\"fill:var(--bad)\">{4}</text>\n",
        x.at(limit), kBarsTop - 6, bottom, kBarsTop - 10, html_escaped(limit_name));
  }
  return html + "</svg></div></figure>\n";
}

}  // namespace longhaul::observe
