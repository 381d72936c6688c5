// Parts of the memory of operators (memory_workspace.h) that the delta rule shares with the others.
#pragma once

#include <cmath>

#include "plan/memory/memory_workspace.h"

namespace longhaul::plan {

inline double rounded_up(double x, double unit) { return std::ceil(x / unit) * unit; }

struct Documents {
  double count, length;
};
inline Documents documents_of(const MemoryRequest& request) {
  const double count = request.documents_at_once();
  return {count, std::ceil(request.tokens() / count)};
}

// The memory that a thread keeps for the next call, for as many threads as have work.
struct ThreadBuffer {
  double threads = 0, bytes = 0;
};

// Our own form on the CPU.
bool own_delta_rule(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes);
ThreadBuffer delta_rule_buffer(const MemoryRequest& request, const recipe::DeltaRuleSizes& sizes);

}  // namespace longhaul::plan
