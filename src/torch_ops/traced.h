// What torch.compile, FakeTensorMode and torch.func need of an operator, for all of ours alike: that it is one call which they see, forward
// and backward, and whose shapes they can ask for. Plain tensors take none of this way: they go straight to the operator's own autograd
// function. A traced backward pass is the operator "_<name>_backward": it has the arguments of the forward pass and gradients, nothing kept
// in between (what is kept has shapes that depend on the documents), so it computes the forward pass again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace longhaul::kernels {

// Boxed kernels. Gradients are those of the floating point tensors among the arguments, in order.
void traced_or_plain(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
void traced_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void traced_backward_shapes(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace longhaul::kernels
