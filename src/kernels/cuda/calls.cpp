#include "kernels/cuda/calls.h"

namespace longhaul::kernels {
namespace {

thread_local bool emulating = false;

}  // namespace

void emulate_cuda(bool on) { emulating = on; }

bool on_gpu(const Tensor& x) { return x.is_cuda() || (x.is_cpu() && emulating); }

Refusal refuse_cuda(const Tensor& x, bool bf16_only) {
  if (!on_gpu(x)) return "the tensors are not on a GPU";
  if (!CudaCalls<CudaMachine>::linked()) return "this program was built without the CUDA kernels";
  if (bf16_only && x.scalar_type() != at::kBFloat16) return "the CUDA kernels compute in bf16";
  return cuda_calls<CudaMachine>().refusal();
}

}  // namespace longhaul::kernels
