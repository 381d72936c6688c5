#include "base/memory/memory_purpose.h"

namespace longhaul {
namespace {

thread_local MemoryPurpose current_purpose = MemoryPurpose::kOther;

}  // namespace

std::string_view name_of(MemoryPurpose purpose) {
  switch (purpose) {
    case MemoryPurpose::kParameters:
      return "parameters";
    case MemoryPurpose::kGradients:
      return "gradients";
    case MemoryPurpose::kOptimizer:
      return "optimizer state";
    case MemoryPurpose::kPackedWeights:
      return "packed weights";
    case MemoryPurpose::kActivations:
      return "activations";
    case MemoryPurpose::kWorkspace:
      return "workspace";
    case MemoryPurpose::kData:
      return "data";
    case MemoryPurpose::kCheckpoint:
      return "checkpoint copy";
    case MemoryPurpose::kOther:
      return "other";
  }
  return "unknown";
}

MemoryPurposeScope::MemoryPurposeScope(MemoryPurpose purpose) : before_(current_purpose) {
  current_purpose = purpose;
}
MemoryPurposeScope::~MemoryPurposeScope() { current_purpose = before_; }
MemoryPurpose MemoryPurposeScope::current() { return current_purpose; }

}  // namespace longhaul
