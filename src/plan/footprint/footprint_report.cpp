#include "plan/footprint/footprint_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "observe/format.h"
#include "observe/table.h"
#include "plan/footprint/pictures.h"

namespace longhaul::plan {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Sourced& row) {
  return {{"name", row.name}, {"value", row.value.value}, {"sigma", row.value.sigma}, {"source", row.source}};
}

ordered_json json_of(const LifetimeGrid& grid) {
  return {{"mfu", grid.mfu}, {"years", grid.years}, {"gpus", grid.counts}};
}

std::string level_of(const Footprint& footprint) { return footprint.measured() ? "measured" : "modelled"; }

double share_of_nothing(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace

std::string amount(Uncertain value) {
  const auto digits = [](double x) {
    if (x == 0) return std::string("0");
    if (std::abs(x) >= 1e6 || std::abs(x) < 1e-3) return fmt::format("{:.3g}", x);
    return std::abs(x) >= 1000 ? observe::grouped(x) : fmt::format("{:.3g}", x);
  };
  return value.sigma > 0 ? fmt::format("{} ± {}", digits(value.value), digits(value.sigma))
                         : digits(value.value);
}

namespace {

std::vector<observe::Table> tables_of(const Footprint& f) {
  std::vector<observe::Table> tables;
  observe::Table& table = tables.emplace_back(
      fmt::format("footprint of {} ({})", f.input.title, level_of(f)),
      std::vector<observe::Column>{{"what"}, {"amount", observe::Align::kRight}, {"unit"}, {"how"}});
  for (const FootprintRow& row : rows_of(f)) table.row({row.label, amount(row.value), row.unit, row.how});
  if (f.a100.lives >= 1) {
    const LifetimeGrid grid = lifetime_grid(f.input.spent_flops, 312e12);
    observe::Table lives("A100 lives by utilisation and length of a life",
                         {{"MFU"},
                          {"1 year", observe::Align::kRight},
                          {"2 years", observe::Align::kRight},
                          {"3 years", observe::Align::kRight},
                          {"5 years", observe::Align::kRight}});
    for (size_t i = 0; i < grid.mfu.size(); ++i) {
      std::vector<std::string> cells = {observe::percent(grid.mfu[i])};
      for (const double count : grid.counts[i]) cells.push_back(observe::grouped(count));
      lives.row(std::move(cells));
    }
    tables.push_back(std::move(lives));
  }
  if (f.input.inventory) {
    observe::Table elements("materials",
                            {{"element"}, {"kg", observe::Align::kRight}, {"class"}, {"source"}});
    for (const ElementMass& row : f.input.inventory->elements) {
      elements.row({row.element + (row.toxic ? " (toxic)" : ""), amount(row.grams * (f.lifetimes / 1000)),
                    row.kind, row.source});
    }
    elements.total({"toxic together", amount(f.input.inventory->grams(true) * (f.lifetimes / 1000)), "", ""});
    tables.push_back(std::move(elements));
  }
  return tables;
}

// The assumed numbers, with their sources.
std::vector<const Sourced*> assumptions_of(const FootprintInput& in) {
  std::vector<const Sourced*> all;
  for (const Sourced& row : in.assumptions) all.push_back(&row);
  for (const Sourced* row : {&in.place.carbon, &in.place.pue, &in.place.water_on_site, &in.place.water_grid})
    all.push_back(row);
  return all;
}

}  // namespace

std::string footprint_text(const Footprint& f, bool colours) {
  std::string text;
  for (const observe::Table& table : tables_of(f)) text += (text.empty() ? "" : "\n") + table.text(colours);
  return text;
}

std::string footprint_markdown(const Footprint& f) {
  std::string text = "# Footprint of " + f.input.title + "\n";
  for (const observe::Table& table : tables_of(f)) text += "\n" + table.markdown();
  observe::Table assumed("assumed", {{"name"}, {"value", observe::Align::kRight}, {"source"}});
  for (const Sourced* row : assumptions_of(f.input))
    assumed.row({row->name, amount(row->value), row->source});
  return text + "\n" + assumed.markdown();
}

ordered_json footprint_json(const Footprint& f) {
  const FootprintInput& in = f.input;
  ordered_json json = {{"schema", 1},
                       {"title", in.title},
                       {"energy", level_of(f)},
                       {"flops", in.flops},
                       {"spent_flops", in.spent_flops},
                       {"tokens", in.tokens},
                       {"device", in.device},
                       {"devices", in.devices},
                       {"peak_flops_per_s", in.peak},
                       {"mfu", in.mfu},
                       {"life_years", in.years},
                       {"useful_hours", in.useful_hours}};
  for (const FootprintRow& row : rows_of(f)) {
    json[row.key] = row.value.value;
    json[row.key + "_sigma"] = row.value.sigma;
    json[row.key + "_source"] = row.how;
  }
  json["a100_gpus"] = f.a100.whole;
  json["grid"] = json_of(lifetime_grid(in.spent_flops, 312e12));
  ordered_json carbon = ordered_json::object();
  for (const Sourced& each : sensitivity_grids())
    carbon[each.name] = f.energy_facility_kwh.value * each.value.value / 1000;
  json["carbon_kg_by_grid"] = carbon;
  json["assumptions"] = ordered_json::array();
  for (const Sourced* row : assumptions_of(in)) json["assumptions"].push_back(json_of(*row));
  if (in.inventory) {
    json["elements"] = ordered_json::array();
    for (const ElementMass& row : in.inventory->elements) {
      const Uncertain kg = row.grams * (f.lifetimes / 1000);
      json["elements"].push_back({{"symbol", row.symbol},
                                  {"kg", kg.value},
                                  {"kg_sigma", kg.sigma},
                                  {"class", row.kind},
                                  {"toxic", row.toxic},
                                  {"source", row.source}});
    }
  }
  return json;
}

double FootprintComparison::lifetimes_ratio() const {
  return (second.lifetimes / second.input.tokens) / (first.lifetimes / first.input.tokens);
}
double FootprintComparison::energy_ratio() const {
  return second.joules_per_token.value / first.joules_per_token.value;
}

namespace {

observe::Table table_of(const FootprintComparison& c) {
  observe::Table table(fmt::format("{} beside {}", c.second.input.title, c.first.input.title),
                       {{"of a token"},
                        {"first", observe::Align::kRight},
                        {"second", observe::Align::kRight},
                        {"ratio", observe::Align::kRight}});
  const auto row = [&](const std::string& name, double a, double b) {
    table.row({name, fmt::format("{:.4g}", a), fmt::format("{:.4g}", b),
               a != 0 ? fmt::format("{:.3f}", b / a) : ""});
  };
  const auto& [a, b] = c;
  row("share of the peak (MFU), %", 100 * a.input.mfu, 100 * b.input.mfu);
  row("lives of devices, 1e-12", 1e12 * a.lifetimes / a.input.tokens, 1e12 * b.lifetimes / b.input.tokens);
  row("energy, J", a.joules_per_token.value, b.joules_per_token.value);
  row("carbon, µg CO2e", 1e9 * a.carbon_kg.value / a.input.tokens, 1e9 * b.carbon_kg.value / b.input.tokens);
  return table;
}

}  // namespace

std::string comparison_text(const FootprintComparison& c, bool colours) {
  return table_of(c).text(colours) + fmt::format("\n{}\n", message_of(c));
}

std::string comparison_markdown(const FootprintComparison& c) {
  return fmt::format("# {} beside {}\n\n{}\n{}\n", c.second.input.title, c.first.input.title,
                     table_of(c).markdown(), message_of(c));
}

std::string message_of(const FootprintComparison& c) {
  return fmt::format(
      "The second has {:.2f} times the utilisation of the first; a token takes {:.2f} times the lives of "
      "devices (1/utilisation: {:.2f})\n"
      "and {:.2f} times the energy, {} ({} beside {}).",
      c.utilisation_ratio(), share_of_nothing(c.lifetimes_ratio()), 1 / c.utilisation_ratio(),
      share_of_nothing(c.energy_ratio()),
      (c.energy_ratio() > c.lifetimes_ratio()) == (c.utilisation_ratio() > 1)
          ? "which changes less than the lives do: an idle machine draws power too"
          : "which changes at least as much as the lives do",
      level_of(c.second), level_of(c.first));
}

ordered_json comparison_json(const FootprintComparison& c) {
  return {{"utilisation_ratio", c.utilisation_ratio()},
          {"lifetimes_per_token_ratio", c.lifetimes_ratio()},
          {"energy_per_token_ratio", c.energy_ratio()},
          {"first", footprint_json(c.first)},
          {"second", footprint_json(c.second)}};
}

}  // namespace longhaul::plan
