// What a device is made of, element by element, from a CSV file of the user's: the measured table of arXiv 2512.04142 was not to be had, so none
// comes with Longhaul and none is made up. Columns: device,element,symbol,atomic_number,part,g_per_unit,class,toxic,source,uncertainty (relative).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/footprint/uncertain.h"

namespace longhaul::plan {

struct ElementMass {
  std::string element, symbol, kind;  // kind: heavy, precious, critical, rare_earth, light
  bool toxic = false;
  Uncertain grams;  // of one device, all its parts
  std::string source;
};

struct Inventory {
  std::vector<ElementMass> elements;  // heaviest first
  Uncertain grams(bool toxic_only = false) const;
};

// Rows of one device; kUsage naming the line where a row has no source, a class unknown or a mass below 0, or where no row is the device's.
Inventory read_inventory(std::string_view text, const std::string& name, const std::string& device);

}  // namespace longhaul::plan
