// What the calls between ranks cost in recorded steps, kind by kind: calls of one name in one kind of group
// count as one kind, whatever their layers, micro-batches and stages ("gradients of layers.*" over dp). The
// parts of the waiting are those of observe/trace/time_use.h; waits for two calls at once count for both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

struct CallCost {
  std::string group;             // kind of group: "dp"
  std::string name;              // with * for every number
  int64_t calls = 0, bytes = 0;  // of all ranks; bytes: sent
  // how long the computing threads of all ranks waited: after all participants had come, and before
  int64_t exposed_ns = 0, early_ns = 0;
};

// Over all steps and ranks of the trace, the longest exposed first.
std::vector<CallCost> call_costs(const std::vector<RankTrace>& ranks);
// `steps`: the means are for a step. At most `most` rows, the rest in one.
std::string call_cost_table(const std::vector<CallCost>& kinds, int64_t steps, size_t most, bool colours);

}  // namespace longhaul::observe
