// What only shows beside other nodes: another version or another result than the others have, a rate below theirs, a partner with whom nothing goes
// well (docs/sources/reliability.md §5.4). Each finding names the node that stands out; where two nodes differ and nobody else is there, both.
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

// Fingerprints: who has not what more than half of the nodes have; those that are of a model, of the nodes of that model. Rates ("…_per_second")
// of nodes of one model: below limits share_of_median of their median, and more than a standard deviation below their mean, is slow; below
// failed_share_of_median has failed. A rate is compared among three nodes at least, each a machine of its own.
std::vector<NodeFinding> compare_nodes(const std::vector<SelfCheckReport>& nodes, const Limits& limits);

// Who meets whom in a round: pairs (a, b) with a < b, no node twice. Over the rounds no pair meets twice, and over `meetings(nodes)` rounds each
// node meets two others, if there are two (the circle method of tournaments).
std::vector<std::pair<int64_t, int64_t>> pairs_of_round(int64_t nodes, int64_t round);
int64_t meetings(int64_t nodes);  // rounds: 0, 1, 2 or 3

struct PairResult {
  int64_t a = 0, b = 0, round = 0;
  bool correct = true;  // what each sent arrived
  double bytes_per_second = 0;
  bool one_machine = false;  // both are on it: its rate says who else is computing there, and is not judged
};
// A pair is bad where data were wrong or the rate is below failed_share_of_median of all pairs' median. A node all of whose pairs (two at least) are
// bad, while a partner's other pairs are not, is found; of other bad pairs both nodes, as a link between them that is bad.
std::vector<NodeFinding> judge_pairs(const std::vector<PairResult>& pairs, const std::vector<std::string>& nodes, const Limits& limits);

// All of it.
struct NodesReport {
  std::vector<SelfCheckReport> nodes;
  std::vector<PairResult> pairs;
  std::vector<double> clock_offsets_s;  // wall clock of the first node minus this node's
  std::vector<NodeFinding> findings;    // those of the nodes' own checks too

  bool passed() const;
  std::vector<std::string> failed_nodes() const;  // each once
  nlohmann::ordered_json to_json() const;
};
// `nodes`, `pairs` and `clock_offsets_s` are given, the findings made.
void judge(NodesReport& report, const Limits& limits);

}  // namespace longhaul::control
