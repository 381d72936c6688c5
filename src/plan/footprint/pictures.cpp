#include "plan/footprint/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "observe/charts/chart.h"
#include "observe/format.h"

namespace longhaul::plan {
namespace {

using observe::html_escaped;

std::string picture(const std::string& title, const std::string& remark, const std::string& svg) {
  return fmt::format(
      "<figure class=\"picture\"><figcaption><h3>{}</h3><p>{}</p></figcaption><div "
      "class=\"scroll\">{}</div></figure>\n",
      html_escaped(title), html_escaped(remark), svg);
}

std::string tile(const char* name, const std::string& value, const std::string& unit,
                 const std::string& more) {
  return fmt::format(
      "<div class=\"tile\"><span class=\"name\">{}</span><b>{} <small>{}</small></b><span "
      "class=\"more\">{}</span></div>\n",
      name, html_escaped(value), html_escaped(unit), html_escaped(more));
}

struct Scaled {
  double factor;
  const char* unit;
};
// The unit in which the number has few digits.
Scaled scaled(double value, std::initializer_list<Scaled> units) {
  Scaled best = *units.begin();
  for (const Scaled& unit : units) {
    if (std::abs(value) * unit.factor >= 1) best = unit;
  }
  return best;
}

std::string in_scale(Uncertain value, const Scaled& scale) { return amount({value.value * scale.factor, 0}); }

}  // namespace

std::string bars_picture(const std::string& title, const std::string& remark, const std::string& unit,
                         const std::vector<Bar>& bars) {
  constexpr double kLeft = 190, kRight = 900, kRow = 34;
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.value.value + bar.value.sigma);
  if (!(most > 0)) most = 1;
  const auto x = [&](double value) { return kLeft + (kRight - kLeft) * std::max(0.0, value) / most; };
  std::string svg = fmt::format("<svg viewBox=\"0 0 1080 {:.0f}\" role=\"img\">",
                                kRow * static_cast<double>(bars.size()) + 26);
  const double bottom = kRow * static_cast<double>(bars.size());
  const auto ticks = observe::linear_ticks(0, most, 5);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.1f}\"/><text x=\"{0:.1f}\" "
        "y=\"{2:.1f}\" text-anchor=\"middle\">{3}</text>",
        x(tick), bottom, bottom + 18, observe::tick_text(tick, step));
  }
  double y = 5;
  for (const Bar& bar : bars) {
    const double low = x(bar.value.value - bar.value.sigma), high = x(bar.value.value + bar.value.sigma),
                 middle = y + 12;
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 10,
                       middle + 4, html_escaped(bar.name));
    svg += fmt::format("<rect class=\"box {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"24\"/>",
                       bar.style, kLeft, y, std::max(1.0, x(bar.value.value) - kLeft));
    if (bar.value.sigma > 0) {
      svg += fmt::format(
          "<path class=\"cross\" style=\"opacity:.9\" fill=\"none\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} "
          "{3:.1f}v8M{1:.1f} {3:.1f}v8\"/>",
          low, high, middle, middle - 4);
    }
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{} {}</text>", std::max(high, x(bar.value.value)) + 8,
                       middle + 4, html_escaped(amount(bar.value)), html_escaped(unit));
    y += kRow;
  }
  return picture(title, remark, svg + "</svg>");
}

std::string lifetimes_picture(const LifetimeGrid& grid) {
  constexpr double kLeft = 190, kWidth = 200, kHeight = 46;
  double most = 0;
  for (const auto& row : grid.counts) most = std::max(most, *std::ranges::max_element(row));
  const double rows = static_cast<double>(grid.mfu.size());
  std::string svg = fmt::format("<svg viewBox=\"0 0 1080 {:.0f}\" role=\"img\">", kHeight * rows + 34);
  for (size_t i = 0; i < grid.mfu.size(); ++i) {
    const double y = kHeight * static_cast<double>(i);
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">MFU {}</text>", kLeft - 10,
                       y + kHeight / 2 + 4, observe::percent(grid.mfu[i]));
    for (size_t j = 0; j < grid.years.size(); ++j) {
      const double x = kLeft + kWidth * static_cast<double>(j),
                   share = most > 0 ? grid.counts[i][j] / most : 0;
      svg += fmt::format(
          "<rect class=\"box backward\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
          "fill-opacity=\"{:.3f}\"/>",
          x, y, kWidth - 4, kHeight - 4, 0.12 + 0.75 * share);
      svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
          "style=\"fill:var(--ink);font-size:15px\">{}</text>",
          x + kWidth / 2 - 2, y + kHeight / 2 + 4, observe::grouped(grid.counts[i][j]));
    }
  }
  for (size_t j = 0; j < grid.years.size(); ++j) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">a life of {:g} year{}</text>",
                       kLeft + kWidth * (static_cast<double>(j) + 0.5) - 2, kHeight * rows + 18,
                       grid.years[j], grid.years[j] == 1 ? "" : "s");
  }
  return picture(
      "A100s used up, by utilisation and length of a life",
      "FLOPs over 312 TFLOP/s · MFU · seconds of a life, rounded up: lives used up, not devices installed.",
      svg + "</svg>");
}

std::string tiles_of(const Footprint& f) {
  const Scaled kwh =
      scaled(f.energy_facility_kwh.value, {{1000, "Wh"}, {1, "kWh"}, {1e-3, "MWh"}, {1e-6, "GWh"}});
  const Scaled kg = scaled(f.carbon_kg.value, {{1000, "g CO2e"}, {1, "kg CO2e"}, {1e-3, "t CO2e"}});
  const Uncertain water = f.water_on_site_l + f.water_grid_l;
  const Scaled litres = scaled(water.value, {{1000, "mL"}, {1, "L"}, {1e-3, "m³"}});
  std::string html = "<div class=\"tiles\">\n";
  html += tile("Energy, with cooling", in_scale(f.energy_facility_kwh, kwh), kwh.unit,
               fmt::format("± {:.0f} %, {}", 100 * f.energy_facility_kwh.relative(),
                           f.measured() ? "measured" : "modelled"));
  html += tile("Carbon, by location", in_scale(f.carbon_kg, kg), kg.unit,
               fmt::format("± {:.0f} %", 100 * f.carbon_kg.relative()));
  html += tile("Water", in_scale(water, litres), litres.unit,
               fmt::format("± {:.0f} %, most of it of power stations", 100 * water.relative()));
  html +=
      tile("Lives used up", f.lifetimes >= 0.01 ? amount({f.lifetimes, 0}) : observe::scientific(f.lifetimes),
           "", fmt::format("of {}, {:g} years each", f.input.device, f.input.years));
  html += tile("Utilisation", observe::percent(f.input.mfu), "",
               "useful FLOPs over the peak, in steps that count");
  return html + "</div>\n";
}

std::string rows_table(const Footprint& f) {
  std::string html =
      "<div class=\"table\"><table><tr><th>what</th><th "
      "class=\"n\">amount</th><th>unit</th><th>how</th></tr>\n";
  for (const FootprintRow& row : rows_of(f)) {
    html += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"dim key\">{}</td><td class=\"dim\">{}</td></tr>\n",
        row.label, amount(row.value), row.unit, html_escaped(row.how));
  }
  return html + "</table></div>\n";
}

std::string carbon_by_grid(const Footprint& f) {
  const Scaled kg = scaled(f.carbon_kg.value, {{1000, "g CO2e"}, {1, "kg CO2e"}, {1e-3, "t CO2e"}});
  std::vector<Bar> bars = {{"as computed", f.carbon_kg * kg.factor, "forward"}};
  for (const Sourced& each : sensitivity_grids())
    bars.push_back({each.name, f.energy_facility_kwh * each.value * (kg.factor / 1000), "data"});
  return bars_picture("Carbon, were the same energy from elsewhere",
                      "Location-based, cooling included; whiskers are one standard deviation.", kg.unit,
                      bars);
}

}  // namespace longhaul::plan
