// LibraryCheck: a call of LibTorch's that exists on a GPU only is compared once, on a small problem, with
// what it should give, before anything is computed by it. LibTorch may be built without the library, or
// another version may count its arguments otherwise; then other implementations compute, and a warning says
// so.
//
//   const LibraryCheck& check = …;   // a static object
//   if (const Refusal refusal = check.refusal(x); !refusal.empty()) return refusal;
//
// Thread-safe. The first question on a device waits for it.
#pragma once

#include <map>
#include <mutex>

#include "kernels/dispatch.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

class LibraryCheck {
 public:
  // `what`, a literal: "flash attention". `works` runs the small problem on a device and may throw.
  LibraryCheck(const char* what, bool (*works)(at::Device device)) : what_(what), works_(works) {}
  // Why nothing is computed by it on this device; empty: it is right.
  Refusal refusal(at::Device device) const;
  void forget() const;  // for tests: asks again

 private:
  const char* what_;
  bool (*works_)(at::Device device);
  mutable std::mutex mutex_;
  mutable std::map<at::DeviceIndex, bool> right_;
};

// Whether a is b but for the rounding of bf16 operands; reads both.
bool nearly_equal(const Tensor& a, const Tensor& b);

}  // namespace longhaul::kernels
