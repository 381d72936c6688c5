// The faults of a node that only show in comparison with other nodes: it has another version or another
// result than they have, its rate is below theirs, or every exchange with a partner goes wrong
// (docs/sources/reliability.md §5.4). Each finding names the node that stands out; where only two nodes are
// there and they differ, both are named.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "control/checks/self_check.h"

namespace longhaul::control {

struct NodeFinding {
  std::string node, check;
  CheckStatus status = CheckStatus::kFailed;
  std::string found, limit;
  bool operator==(const NodeFinding&) const = default;
};

// Compares fingerprints and rates of nodes. Fingerprints: a node is named whose value is not the one that
// more than half of the nodes have; fingerprints of a model are compared among the nodes of that model only.
// Rates (names that end with "_per_second") are compared among nodes of one model: a rate below limit
// share_of_median of their median that is also more than a standard deviation below their mean is slow; a
// rate below failed_share_of_median has failed. A rate is only compared among at least three nodes, each on a
// machine of its own.
std::vector<NodeFinding> compare_nodes(const std::vector<SelfCheckReport>& nodes, const Limits& limits);

// The pairs of nodes that exchange data in a round: (a, b) with a < b, no node twice. No pair meets twice in
// all rounds, and in `meetings(nodes)` rounds each node meets two others, if there are two (the circle method
// of tournaments).
std::vector<std::pair<int64_t, int64_t>> pairs_of_round(int64_t nodes, int64_t round);
int64_t meetings(int64_t nodes);  // number of rounds: 0, 1, 2 or 3

struct PairResult {
  int64_t a = 0, b = 0, round = 0;
  bool correct = true;  // the data arrived unchanged in both directions
  double bytes_per_second = 0;
  // Both nodes are on one machine: the rate then shows who else computes there, and is not judged.
  bool one_machine = false;
};
// A pair is bad if its data were wrong or its rate is below failed_share_of_median of the median of all
// pairs. A node is found if all of its pairs (at least two) are bad while its partners have pairs that are
// not. For every other bad pair both nodes are found, as the link between them may be bad.
std::vector<NodeFinding> judge_pairs(const std::vector<PairResult>& pairs,
                                     const std::vector<std::string>& nodes, const Limits& limits);

// NodesReport: the results of all nodes and pairs of one check of several nodes, and what was concluded from
// them.
struct NodesReport {
  std::vector<SelfCheckReport> nodes;
  std::vector<PairResult> pairs;
  std::vector<double> clock_offsets_s;  // wall clock of the first node minus this node's
  std::vector<NodeFinding> findings;    // includes the failed and slow results of the nodes' own checks

  bool passed() const;
  std::vector<std::string> failed_nodes() const;  // each name once
  nlohmann::ordered_json to_json() const;
};
// Fills report.findings from `nodes`, `pairs` and `clock_offsets_s`, which the caller has set.
void judge(NodesReport& report, const Limits& limits);

}  // namespace longhaul::control
