#include "kernels/cuda/tensors.h"

#include "base/memory/memory_purpose.h"
#include "kernels/cuda/runtime.h"

namespace longhaul::kernels::cuda {
namespace {

const runtime::Machine& machine() {
  static const runtime::Machine found = runtime::machine();
  return found;
}

Refusal refusal() { return machine().usable ? Refusal() : Refusal(machine().reason.c_str()); }
const CudaCalls<CudaMachine> registered({.refusal = refusal});

}  // namespace

int multiprocessors() { return machine().multiprocessors; }

Tensor workspace(int64_t bytes, const Tensor& like) {
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  return at::empty({bytes}, like.options().dtype(at::kByte).requires_grad(false));
}

}  // namespace longhaul::kernels::cuda
