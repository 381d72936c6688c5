// diagnose_nodes: the part of a diagnosis in which nodes test each other
// (control/checks/node_comparison.h): reports are gathered, every node exchanges test patterns with one
// partner in each round, and clocks are compared. A collective call with one rank for each node; all get
// the same report.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "control/checks/node_comparison.h"

namespace longhaul::comm {

struct DiagnoseOptions {
  int64_t pair_bytes = 16 << 20;                // each way, a few times a round
  bool plant = false;                           // this rank sends wrong bytes, for tests
  Timeout timeout = std::chrono::seconds(120);  // for the slowest node's own checks, and for each exchange
};

std::vector<std::string> gather_texts(Communicator& world, const std::string& own, const std::string& name,
                                      Timeout timeout);
std::vector<control::PairResult> measure_pairs(Communicator& world, const DiagnoseOptions& options);
control::NodesReport diagnose_nodes(Communicator& world, const control::SelfCheckReport& own,
                                    const control::Limits& limits, const DiagnoseOptions& options = {});

// The same for a node that knows its peers by their addresses, given in the same order on all of them. It
// joins them and adds what they find about this node (pairs, clock) to its own report. If peers share an
// address or do not come, the check is skipped with the reason, because that is no fault of this node.
void diagnose_with_peers(control::SelfCheckReport& own, const std::vector<std::string>& peers,
                         const control::Limits& limits, const DiagnoseOptions& options = {});

}  // namespace longhaul::comm
