#include "plan/footprint/inventory.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/footprint/named_rows.h"

namespace longhaul::plan {

Uncertain Inventory::grams(bool toxic_only) const {
  Uncertain sum{};
  for (const ElementMass& row : elements) {
    if (row.toxic || !toxic_only) sum = sum + row.grams;
  }
  return sum;
}

Inventory read_inventory(std::string_view text, const std::string& name, const std::string& device) {
  const auto rows = read_named_rows(text, name,
                                    {"device", "element", "symbol", "atomic_number", "part", "g_per_unit",
                                     "class", "toxic", "source", "uncertainty"});
  std::map<std::string, ElementMass> by_symbol;
  for (const NamedRow& row : rows) {
    if (row.text("device") != device) continue;
    const double grams = row.number("g_per_unit", "grams", 0, 1e6),
                 relative = row.number("uncertainty", "relative error", 0, 10);
    row.number("atomic_number", "protons", 1, 118);
    const std::string kind = row.text("class");
    const std::vector<std::string> kinds = {"heavy", "precious", "critical", "rare_earth", "light"};
    if (std::ranges::find(kinds, kind) == kinds.end())
      row.fail("class", "heavy, precious, critical, rare_earth or light");
    ElementMass& mass = by_symbol[row.text("symbol")];
    mass.element = row.text("element");
    mass.symbol = row.text("symbol");
    mass.kind = kind;
    mass.toxic = row.number("toxic", "0 or 1", 0, 1) > 0;
    mass.grams = mass.grams + Uncertain{grams, grams * relative};
    mass.source = row.text("source");
  }
  Inventory inventory;
  for (auto& [symbol, mass] : by_symbol) inventory.elements.push_back(std::move(mass));
  if (inventory.elements.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the inventory has nothing of this device",
                 .expected = "rows whose device is " + device,
                 .where = name});
  }
  std::ranges::sort(inventory.elements,
                    [](const auto& a, const auto& b) { return a.grams.value > b.grams.value; });
  return inventory;
}

}  // namespace longhaul::plan
