// The fast model of a rank's memory (exact_memory.h has the exact one, for a run).
//
// The memory of the fullest rank of a layout, by purpose, in closed form for searches: bf16 weights, fp32
// gradients, AdamW with fp32 masters. state_bytes.h has the exact state of one rank of a mesh, memory.h the
// total of one process; tests compare them. In bytes.
#pragma once

#include "plan/step_time.h"

namespace longhaul::plan {

struct SearchMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, head = 0, reserved = 0;
  double total() const { return weights + gradients + optimizer + activations + head + reserved; }
  std::vector<std::pair<const char*, double>> rows() const;
};

// Micro-batches whose activations the first rank holds at once, in units of all its layers.
double in_flight(const PlanLayout& layout, int64_t micro_batches);

SearchMemory search_memory(const Work& work, const PlanLayout& layout, int64_t batch, const Cluster& cluster);

}  // namespace longhaul::plan
