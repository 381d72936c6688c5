// The purpose of tensor memory. The code that allocates sets the purpose for its thread, the allocator
// (tensor/cpu_allocator.h) counts by it, and the plan (plan/memory/memory.h) predicts the amounts:
//
//   const MemoryPurposeScope scope(MemoryPurpose::kGradients);
//   parameter.grad = at::zeros(sizes);            // counted as gradients until any thread frees it
//
// Scopes nest; the innermost one counts. Without a scope the purpose is kOther. Threads of parallel_for do
// not inherit the caller's scope.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longhaul {

enum class MemoryPurpose : uint8_t {
  kParameters,
  kGradients,      // main gradients of the parameters
  kOptimizer,      // masters and moments
  kPackedWeights,  // copies of parameters in the layout that CPU matrix products read
  kActivations,    // of the forward pass, kept for the backward pass or not, and their gradients
  kWorkspace,      // of operators: freed at the end of the call, or kept by a thread for the next one
  kData,           // token ids, labels, positions
  kCheckpoint,     // the copy that is being written, or the data being read
  kOther,
};
inline constexpr size_t kMemoryPurposes = 9;

std::string_view name_of(MemoryPurpose purpose);  // "parameters", "optimizer state", …

class MemoryPurposeScope {
 public:
  explicit MemoryPurposeScope(MemoryPurpose purpose);
  ~MemoryPurposeScope();
  MemoryPurposeScope(const MemoryPurposeScope&) = delete;
  MemoryPurposeScope& operator=(const MemoryPurposeScope&) = delete;
  static MemoryPurpose current();  // of this thread

 private:
  MemoryPurpose before_;
};

struct MemoryUse {
  int64_t bytes = 0;  // as requested, without headers and rounding
  int64_t peak = 0;   // since the start or the last reset_peaks()
  int64_t blocks = 0;
};

struct MemoryStatistics {
  std::array<MemoryUse, kMemoryPurposes> purposes;
  MemoryUse total;  // its peak is that of the sum, not the sum of the peaks
  // Bytes obtained from the system: in use, cached, headers and rounding; in whole huge pages.
  int64_t held_bytes = 0;
  int64_t peak_held_bytes = 0;
  int64_t allocations = 0;  // so far
  const MemoryUse& of(MemoryPurpose purpose) const { return purposes[static_cast<size_t>(purpose)]; }
};

}  // namespace longhaul
