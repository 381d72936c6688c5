#include "kernels/adamw/cuda_call.h"

#include "kernels/cuda/tensors.h"

namespace longhaul::kernels {
namespace {

void step(const std::vector<cuda::AdamwTensor>& tensors, cuda::AdamwStep numbers, float gradient_scale,
          const Tensor& beside) {
  const cuda::OnDevice device(beside);
  const cuda::Table table(tensors, beside);
  const cuda::Table pieces(cuda::adamw_pieces(tensors), beside);
  // norm, and what gradients are multiplied by
  const cuda::Table norm(std::vector<float>{0, gradient_scale}, beside);
  numbers.tensors = table.data(), numbers.pieces = pieces.data(), numbers.piece_count = pieces.size;
  cuda::adamw(numbers, norm.data(), device.stream());
}

Tensor gradient_norm(const std::vector<cuda::AdamwTensor>& tensors, const Tensor& beside) {
  const cuda::OnDevice device(beside);
  const cuda::Table table(tensors, beside);
  const cuda::Table pieces(cuda::adamw_pieces(tensors), beside);
  const cuda::AdamwStep numbers{.tensors = table.data(), .pieces = pieces.data(), .piece_count = pieces.size};
  const Tensor norm = cuda::fp32_like(beside, {2}),
               workspace = cuda::workspace(cuda::gradient_norm_workspace_bytes(pieces.size), beside);
  cuda::gradient_norm(numbers, cuda::fp32_out(norm), workspace.mutable_data_ptr(), device.stream());
  return norm.narrow(0, 0, 1);
}

const CudaCalls<AdamwCuda> registered({.step = step, .gradient_norm = gradient_norm});

}  // namespace
}  // namespace longhaul::kernels
