// Makes our operators usable with torch.compile, FakeTensorMode and torch.func, all in the same way: these
// tools see each operator as one call, forward and backward, and can query its shapes. Plain tensors do not
// take this path: they go directly to the operator's own autograd function. A traced backward pass is the
// operator "_<name>_backward". Its arguments are those of the forward pass and the gradients; nothing is
// kept from the forward pass (the shapes of saved tensors would depend on the documents), so it computes
// the forward pass again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace longhaul::kernels {

// Boxed kernels. Gradients are those of the floating-point tensors among the arguments, in order.
void traced_or_plain(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
void traced_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void traced_backward_shapes(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace longhaul::kernels
