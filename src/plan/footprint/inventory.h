// The material of a device, element by element, from a CSV file of the user. The measured table of arXiv
// 2512.04142 was not available, so none comes with Longhaul and none is invented. Columns:
// device,element,symbol,atomic_number,part,g_per_unit,class,toxic,source,uncertainty (relative).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/footprint/uncertain.h"

namespace longhaul::plan {

struct ElementMass {
  std::string element, symbol, kind;  // kind: heavy, precious, critical, rare_earth, light
  bool toxic = false;
  Uncertain grams;  // in one device, over all its parts
  std::string source;
};

struct Inventory {
  std::vector<ElementMass> elements;  // heaviest first
  Uncertain grams(bool toxic_only = false) const;
};

// Reads the rows of one device. kUsage naming the line where a row has no source, an unknown class or a mass
// below 0, or where no row is for the device.
Inventory read_inventory(std::string_view text, const std::string& name, const std::string& device);

}  // namespace longhaul::plan
