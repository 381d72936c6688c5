// diagnose_nodes: the part of a diagnosis for which nodes need each other (control/node_comparison.h): reports are gathered, every node sends
// and receives patterns with one partner a round, clocks are compared. A collective call of one rank a node; all get the same report.
#pragma once

#include "comm/communicator.h"
#include "control/node_comparison.h"

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

}  // namespace longhaul::comm
