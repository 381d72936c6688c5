// Helpers for the code that connects tensors with CUDA kernels (<op>/cuda_call.cpp). A call begins with
// OnDevice, which makes the tensors' device the current one; kernels and copies then run on its current
// stream, and nothing waits.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/tables.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace longhaul::kernels::cuda {

class OnDevice {
 public:
  explicit OnDevice(const Tensor& x) : scope_(x.device()), stream_(current_stream(x.device())) {}
  Stream stream() const { return stream_; }

 private:
  DeviceScope scope_;
  Stream stream_;
};

// Null for undefined tensors. Tensors are contiguous.
inline const Bf16* bf16(const Tensor& x) {
  return x.defined() ? static_cast<const Bf16*>(x.const_data_ptr()) : nullptr;
}
inline const float* fp32(const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
inline Bf16* bf16_out(const Tensor& x) {
  return x.defined() ? static_cast<Bf16*>(x.mutable_data_ptr()) : nullptr;
}
inline float* fp32_out(const Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }

inline Tensor contiguous(const Tensor& x) { return x.defined() ? x.contiguous() : x; }
inline Tensor fp32_like(const Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes, x.options().dtype(at::kFloat).requires_grad(false));
}

Tensor workspace(int64_t bytes, const Tensor& like);  // beside `like`
int multiprocessors();

}  // namespace longhaul::kernels::cuda
