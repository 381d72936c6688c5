// A simulated case as files: one CSV per metric, machines.csv where machines have classes, and truth.json
// with the faults that happened. Times begin at 0.
#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "detect/trials/simulate.h"

namespace longhaul::detect {

void write_case(const std::filesystem::path& folder, const Case& from);

struct Truth {
  std::vector<Fault> faults;  // `machine` and `group` are indices into `machines`
  std::vector<std::string> machines;
};
std::optional<Truth> read_truth(const std::filesystem::path& folder);  // nothing where there is no truth.json

}  // namespace longhaul::detect
