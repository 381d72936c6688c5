// The gradient of a loss with a value that the host knows. It begins a backward pass, and autograd hands the
// very tensor to the operator that made the loss; so this operator need not wait for a device to tell it the
// number.
//
//   const KnownGradient one(loss, 1);
//   loss.backward(one.tensor());
//
// Thread-safe: on a GPU backward passes run on threads of autograd's own.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

class KnownGradient {
 public:
  KnownGradient(const Tensor& of, double value);  // of a scalar
  ~KnownGradient();
  KnownGradient(const KnownGradient&) = delete;
  KnownGradient& operator=(const KnownGradient&) = delete;
  const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
};

// The value of a scalar gradient: at once where it is a KnownGradient that lives, else the host waits for it.
double value_of_gradient(const Tensor& gradient);

}  // namespace longhaul::kernels
