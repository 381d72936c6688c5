// Counts the bytes that a rank sends for one layer, on ranks that are threads (comm::Traced), and compares
// them with the formulas of the specifications: for context parallelism
// (docs/sources/long-context-parallelism.md A8) and experts (docs/sources/moe-parallel-folding.md §3.5).
// They must be equal, to the byte. It also makes dry runs of published models on the published numbers of
// ranks (run/dry_run.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"
#include "run/dry_run.h"

namespace longhaul::bench {

struct CountedBytes {
  std::string method, pass;  // "ring attention, zig-zag", "forward"
  std::string formula;
  int64_t ranks = 0, tokens = 0;        // ranks of the group; tokens of its row
  int64_t counted = 0, by_formula = 0;  // bytes of the rank that sends most
  bool equal() const { return counted == by_formula; }
};

std::vector<CountedBytes> count_communication();

struct PublishedRun {
  std::string name;
  run::DryRunRequest request;
};
std::vector<PublishedRun> published_runs();

nlohmann::ordered_json to_json(const CountedBytes& line);
nlohmann::ordered_json to_json(const std::string& name, const run::DryRunRequest& request,
                               const run::DryRun& run);
observe::Table table_of(const std::vector<CountedBytes>& lines);
observe::Table table_of(const std::string& name, const run::DryRunRequest& request, const run::DryRun& run);

}  // namespace longhaul::bench
