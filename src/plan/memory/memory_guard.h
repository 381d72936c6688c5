// Refuses what does not fit into memory before anything of it is allocated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/memory/memory.h"

namespace longhaul::plan {

// What must be free where the weights are: on a CPU everything, on a GPU all but data and the checkpoint's copy, which are the host's.
double needed_bytes(const MemoryRequest& request, const MemoryPlan& plan);

// Whose memory it is, and what else than the request's sizes could be changed: by default that of one process with the whole model.
struct MemoryOwner {
  std::string what = "training does not fit into memory";
  std::function<MemoryPlan(const MemoryRequest&)> plan = plan_memory;  // kUsage: such sizes cannot be dealt out
  int64_t replicas = 1;                                                // that share a batch
  int64_t stages = 1;                                                  // that share the layers
  struct Change {
    std::string setting;  // "parallel.zero=1"
    MemoryPlan plan;
  };
  std::function<std::vector<Change>()> changes{};  // unset: none
  int64_t parameters = 0;                          // of the model, for the error; 0: of the model that the request describes
  bool fewer_layers = true;                        // the request describes the model, so that fewer of its layers can be advised
  std::string hint{};                              // what else would help: "fewer ranks on this machine"
};

// Error 68 when that is more than is there: the plan by purpose, what is free, and which option lowers it to what figure.
void require_memory(const MemoryRequest& request, int64_t available_bytes, const MemoryOwner& owner = {});

}  // namespace longhaul::plan
