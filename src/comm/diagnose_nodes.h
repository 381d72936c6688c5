// diagnose_nodes: the part of a diagnosis for which nodes need each other (control/checks/node_comparison.h): reports are gathered, every node sends
// and receives patterns with one partner a round, clocks are compared. A collective call of one rank a node; all get the same report.
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

std::vector<std::string> gather_texts(Communicator& world, const std::string& own, const std::string& name, Timeout timeout);
std::vector<control::PairResult> measure_pairs(Communicator& world, const DiagnoseOptions& options);
control::NodesReport diagnose_nodes(Communicator& world, const control::SelfCheckReport& own, const control::Limits& limits,
                                    const DiagnoseOptions& options = {});

// The same for a node whose partners are known by their addresses, in one order on all of them: joins them, and adds what they find of this node (pairs, clock)
// to its own report. Where peers share an address or do not come, the check is skipped and says why: that is no fault of this node.
void diagnose_with_peers(control::SelfCheckReport& own, const std::vector<std::string>& peers, const control::Limits& limits,
                         const DiagnoseOptions& options = {});

}  // namespace longhaul::comm
