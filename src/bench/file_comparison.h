// Compares two outputs of `longhaul bench … --json`: results are matched by name, shape and dtype, and
// every figure whose name begins with "milliseconds" or ends in "_per_second" is compared. If several
// results have the same key, the last one counts. A file that is not such an output, and two files that
// have nothing in common, are kUsage errors.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

struct ComparedFigure {
  std::string name, shape, dtype, figure;
  double a = 0, b = 0;
  double times_faster() const;  // above 1: b is better

  nlohmann::ordered_json json() const;
};

struct FileComparison {
  std::vector<ComparedFigure> figures;              // in the order of b
  std::vector<std::string> only_in_a, only_in_b;    // results without a partner: "name, shape, dtype"
  std::vector<std::string> machines_a, machines_b;  // the machines that the paired results name

  observe::Table table() const;
  // Facts that the table does not show: results without a partner, machines that differ; one line each, or
  // empty.
  std::string remarks() const;
};

FileComparison compare_files(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace longhaul::bench
