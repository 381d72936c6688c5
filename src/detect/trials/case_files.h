// A simulated case as files: one CSV a metric, machines.csv where machines are in classes, and truth.json with what happened. Times begin at 0.
#pragma once

#include <filesystem>
#include <map>
#include <optional>

#include "detect/trials/simulate.h"

namespace longhaul::detect {

void write_case(const std::filesystem::path& folder, const Case& from);

struct Truth {
  std::vector<Fault> faults;  // `machine` and `group` index into `machines`
  std::vector<std::string> machines;
};
std::optional<Truth> read_truth(const std::filesystem::path& folder);  // nothing where there is no truth.json

}  // namespace longhaul::detect
