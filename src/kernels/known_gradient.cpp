#include "kernels/known_gradient.h"

#include <map>
#include <mutex>

namespace longhaul::kernels {
namespace {

struct Known {
  std::mutex mutex;
  std::map<const at::TensorImpl*, double> values;
};
Known& known() {
  static Known it;
  return it;
}

}  // namespace

KnownGradient::KnownGradient(const Tensor& of, double value)
    : tensor_(at::full(of.sizes(), value, of.options().requires_grad(false))) {
  const std::lock_guard lock(known().mutex);
  known().values[tensor_.unsafeGetTensorImpl()] = value;
}

KnownGradient::~KnownGradient() {
  const std::lock_guard lock(known().mutex);
  known().values.erase(tensor_.unsafeGetTensorImpl());
}

double value_of_gradient(const Tensor& gradient) {
  {
    const std::lock_guard lock(known().mutex);
    const auto found = known().values.find(gradient.unsafeGetTensorImpl());
    if (found != known().values.end()) return found->second;
  }
  return gradient.item<double>();
}

}  // namespace longhaul::kernels
