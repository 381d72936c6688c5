// What the memory of tensors is for. Whoever allocates says so for its thread, the allocator (tensor/cpu_allocator.h) counts by it, and the
// plan (plan/memory/memory.h) says beforehand how much it will be:
//
//   const MemoryPurposeScope scope(MemoryPurpose::kGradients);
//   parameter.grad = at::zeros(sizes);            // counted as gradients until it is freed, by whatever thread
//
// Scopes nest; the innermost holds. Without one: kOther. Threads of parallel_for do not inherit the caller's scope.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longhaul {

enum class MemoryPurpose : uint8_t {
  kParameters,
  kGradients,      // of parameters: the main gradients
  kOptimizer,      // masters and moments
  kPackedWeights,  // copies of parameters in the order that products on a CPU read
  kActivations,    // of the forward pass, kept or not, and their gradients
  kWorkspace,      // of operators: gone with the call, or kept by a thread for the next one
  kData,           // token ids, labels, positions
  kCheckpoint,     // the copy that is being written, or what is being read
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
  int64_t bytes = 0;  // as asked for, without headers and rounding
  int64_t peak = 0;   // since the start or the last reset_peaks()
  int64_t blocks = 0;
};

struct MemoryStatistics {
  std::array<MemoryUse, kMemoryPurposes> purposes;
  MemoryUse total;         // its peak is that of the sum, not the sum of the peaks
  int64_t held_bytes = 0;  // taken from the system: in use, cached, headers and rounding; whole huge pages
  int64_t peak_held_bytes = 0;
  int64_t allocations = 0;  // so far
  const MemoryUse& of(MemoryPurpose purpose) const { return purposes[static_cast<size_t>(purpose)]; }
};

}  // namespace longhaul
