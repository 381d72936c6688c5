// Refuses a run that does not fit into memory before anything is allocated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/memory/memory.h"

namespace longhaul::plan {

// The free memory that is needed where the weights are: on a CPU everything, on a GPU all but data and the
// checkpoint's copy, which are in host memory.
double needed_bytes(const MemoryRequest& request, const MemoryPlan& plan);

// MemoryOwner: whose memory it is, and which settings other than the request's sizes could help; by default
// one process with the whole model.
struct MemoryOwner {
  std::string what = "training does not fit into memory";
  // kUsage: such sizes cannot be distributed.
  std::function<MemoryPlan(const MemoryRequest&)> plan = plan_memory;
  int64_t replicas = 1;  // number of replicas that share a batch
  int64_t stages = 1;    // number of stages that share the layers
  struct Change {
    std::string setting;  // "parallel.zero=1"
    MemoryPlan plan;
  };
  std::function<std::vector<Change>()> changes{};  // empty: none
  // of the model, for the error; 0: of the model that the request describes
  int64_t parameters = 0;
  std::string hint{};  // other advice: "fewer ranks on this machine"
};

// Error 68 when the plan needs more than is available: it shows the plan by purpose, the free memory, and
// which option lowers the need to which value.
void require_memory(const MemoryRequest& request, int64_t available_bytes, const MemoryOwner& owner = {});

}  // namespace longhaul::plan
