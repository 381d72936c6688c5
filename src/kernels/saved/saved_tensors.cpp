#include "kernels/saved/saved_tensors.h"

#include "base/error.h"

namespace longhaul::kernels {
namespace {

thread_local SavedTensors* current_keeper = nullptr;

}  // namespace

const c10::Storage& SavedStorage::whole() {
  if (!restored_.defined()) {
    const at::NoGradGuard no_gradient;
    const SavedTensorsScope none(nullptr);
    restored_ = restore();
  }
  return restored_.storage();
}

SavedTensorsScope::SavedTensorsScope(SavedTensors* keeper) : before_(current_keeper) {
  current_keeper = keeper;
}
SavedTensorsScope::~SavedTensorsScope() { current_keeper = before_; }
SavedTensors* SavedTensorsScope::current() { return current_keeper; }

SavedTensor::SavedTensor(const Tensor& x, SavedTensors* keeper) {
  if (!x.defined()) return;
  if (keeper != nullptr) storage_ = keeper->take(x);
  if (storage_ == nullptr) {
    x_ = x.detach();
    return;
  }
  x_ = at::empty({0}, x.options().requires_grad(false));
  sizes_ = x.sizes().vec();
  strides_ = x.strides().vec();
  offset_ = x.storage_offset();
  wants_gradient_ = x.requires_grad();
}

SavedTensor SavedTensor::of_rows(const Tensor& x, int64_t rows, SavedTensors* keeper) {
  const Tensor first = x.detach().narrow(0, 0, rows);
  LONGHAUL_ASSERT(first.is_contiguous(), "rows that lie apart are not copied");
  SavedTensor saved;
  saved.storage_ = keeper != nullptr ? keeper->take_rows(first) : nullptr;
  if (saved.storage_ == nullptr) {
    saved.x_ = rows == x.size(0) ? first : first.clone();
    return saved;
  }
  saved.x_ = at::empty({0}, first.options());
  saved.sizes_ = first.sizes().vec();
  saved.strides_ = first.strides().vec();
  return saved;
}

Tensor SavedTensor::get() const {
  if (storage_ == nullptr) return x_;
  const at::NoGradGuard no_gradient;
  return at::empty({0}, x_.options())
      .set_(storage_->whole(), offset_, sizes_, strides_)
      .requires_grad_(wants_gradient_);
}

}  // namespace longhaul::kernels
