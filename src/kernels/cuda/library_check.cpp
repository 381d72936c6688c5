#include "kernels/cuda/library_check.h"

#include "base/log.h"

namespace longhaul::kernels {

Refusal LibraryCheck::refusal(at::Device device) const {
  const std::lock_guard lock(mutex_);
  auto found = right_.find(device.index());
  if (found == right_.end()) {
    std::string reason = "it gives other results than it should";
    bool right = false;
    try {
      const at::NoGradGuard no_gradient;
      right = works_(device);
    } catch (const std::exception& error) {
      reason = error.what();
      reason = reason.substr(0, reason.find('\n'));
    }
    if (!right)
      log_warning("LibTorch's {} is not used on this device, other implementations compute: {}", what_,
                  reason);
    found = right_.emplace(device.index(), right).first;
  }
  return found->second ? Refusal() : Refusal("LibTorch's call failed its check on this device");
}

void LibraryCheck::forget() const {
  const std::lock_guard lock(mutex_);
  right_.clear();
}

bool nearly_equal(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(at::kCPU, at::kDouble), y = b.to(at::kCPU, at::kDouble);
  if (x.sizes() != y.sizes() || !x.isposinf().equal(y.isposinf()) || !x.isneginf().equal(y.isneginf()) ||
      x.isnan().any().item<bool>())
    return false;
  // Each operand and result is rounded to 8 bits; a wrong argument is off by whole values.
  constexpr double kAllowed = 0.05;
  const Tensor finite = y.isfinite(), zero = at::zeros_like(y);
  const double largest = at::where(finite, y, zero).abs().max().item<double>(),
               difference = at::where(finite, x.sub(y), zero).abs().max().item<double>();
  return difference <= kAllowed * std::max(largest, 1.0);
}

}  // namespace longhaul::kernels
