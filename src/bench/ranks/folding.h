// `longhaul bench folding` measures how much time is lost where the ranks that share experts stand on several
// nodes (docs/sources/moe-parallel-folding.md §12, 10). Eight processes of this machine are the ranks of one
// expert group, and links of two speeds are emulated between them (comm::Delayed): a fast one on a node, a
// slower one to other nodes. One layer of experts runs forward and backward in every mapping, all mappings of
// one call in turns, so that other load on the machine affects all alike.
//
//   folded      the ranks of ep are those of cp (or tp): one node has all eight
//   not folded  ep lies across cp: of a run with cp 8 and ep 8 the eight ranks of an expert group stand on
//               eight nodes
//   etp 4 ep 2  each expert is cut over four ranks, and two ranks share the experts
//
// The exchanges of attention between context ranks are the same in all of them, and are not run. Experts are
// chosen evenly. Exit 1: mappings give different results, or send other bytes than the formulas say
// (layout/methods/experts.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "observe/table.h"

namespace longhaul::bench {

inline constexpr int64_t kFoldingRanks = 8;

struct FoldingRequest {
  double near_bytes_per_second = 32e6, far_bytes_per_second = 4e6;  // of a rank's links, in each direction
  int64_t tokens = 128;                                             // of a rank
  int64_t hidden = 256;                                             // channels
  int64_t intermediate = 256;  // inner channels of each of eight experts; of each of 64 an eighth
  int64_t turns = 5;           // of which the median counts
};

struct FoldingRow {
  int64_t experts = 0, chosen = 0;  // of the model; for each token
  int64_t ep = 1, etp = 1, ranks_of_node = kFoldingRanks;
  // Bytes that a rank sends in a forward and a backward pass, and by the formulas.
  int64_t bytes_counted = 0, bytes_formula = 0;
  double exchange_s = 0;       // by bytes and rates alone
  double seconds = 0;          // the median turn of one forward and backward pass
  double without_links_s = 0;  // the same with links that take no time
  // Times the folded mapping's, medians of the turns' ratios: of the whole, and of what links add.
  double ratio = 1, exchange_ratio = 1;
  bool same_results = false;

  std::string mapping() const;  // "cp8 ep8, folded"
  std::string nodes() const;    // "2 of 4"
  bool good() const { return same_results && bytes_counted == bytes_formula; }
};

// Error 64 where tokens or channels do not come out even.
void require_even(const FoldingRequest& request);

// Error 69 when a process fails, with its output.
std::vector<FoldingRow> measure_folding(const FoldingRequest& request);
// The work of each process: `bench folding --as-rank FOLDER`.
void measure_folding_as_rank(const std::filesystem::path& folder);

nlohmann::ordered_json to_json(const FoldingRequest& request, const FoldingRow& row);
observe::Table table_of(const FoldingRequest& request, const std::vector<FoldingRow>& rows);

}  // namespace longhaul::bench
