// Two outputs of `longhaul bench … --json` side by side: results are matched by name, shape and dtype, and every figure whose name
// begins with "milliseconds" or ends in "_per_second" is compared. A file that is not such an output is a kUsage error naming the line.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longhaul::bench {

struct Comparison {
  std::string name, shape, dtype, figure;
  double a = 0, b = 0;
  double times_faster() const;  // above 1: b is better

  nlohmann::ordered_json json() const;
  std::string text() const;  // one aligned line
};

std::vector<Comparison> compare_files(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace longhaul::bench
