// torch.ops.longhaul.optimizer_step and optimizer_states (kernels/optimizer_step/op.h): values and states are
// written in place, nothing is recorded for autograd, whether or not values require gradients, and whoever
// saved a value for a backward pass finds out.
#include <torch/library.h>

#include <algorithm>

#include "kernels/optimizer_step/op.h"

namespace longhaul::kernels {
namespace {

using Numbers = at::ArrayRef<double>;

bool any_symbolic(const OptimizerStep& call) {
  const auto any = [](const std::vector<Tensor>& tensors) {
    return std::ranges::any_of(
        tensors, [](const Tensor& each) { return each.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); });
  };
  return any(call.values) || any(call.gradients) || any(call.states);
}

OptimizerStep call_of(std::string_view name, at::TensorList values, at::TensorList gradients,
                      at::TensorList states, int64_t step, double lr, Numbers options) {
  return {std::string(name), values.vec(), gradients.vec(), states.vec(), step, lr, options.vec()};
}

void step_in_place(std::string_view name, at::TensorList values, at::TensorList gradients,
                   at::TensorList states, int64_t step, double lr, Numbers options) {
  const OptimizerStep call = call_of(name, values, gradients, states, step, lr, options);
  optimizer_step(call);
  for (const auto* written : {&call.values, &call.states}) {
    for (const Tensor& tensor : *written) {
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

// Shapes that are symbols cannot be asked for anything.
void step_of_shapes(std::string_view name, at::TensorList values, at::TensorList gradients,
                    at::TensorList states, int64_t step, double lr, Numbers options) {
  const OptimizerStep call = call_of(name, values, gradients, states, step, lr, options);
  if (!any_symbolic(call)) optimizer_step(call);
}

std::vector<Tensor> first_states(std::string_view name, at::TensorList values, Numbers options) {
  std::vector<Tensor> states;
  for (NamedState& state : optimizer_states(std::string(name), values.vec(), options.vec()))
    states.push_back(std::move(state.tensor));
  return states;
}

void not_recorded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(longhaul, library) {
  library.def(
      "optimizer_step(str name, Tensor(a!)[] values, Tensor[] gradients, Tensor(b!)[] states, int step, "
      "float lr, float[] options=[]) -> ()");
  library.def("optimizer_states(str name, Tensor[] values, float[] options=[]) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(longhaul, Autograd, library) {
  for (const char* name : {"optimizer_step", "optimizer_states"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&not_recorded>());
}

TORCH_LIBRARY_IMPL(longhaul, CompositeExplicitAutograd, library) {
  library.impl("optimizer_step", step_in_place);
  library.impl("optimizer_states", first_states);
}

TORCH_LIBRARY_IMPL(longhaul, Meta, library) { library.impl("optimizer_step", step_of_shapes); }

}  // namespace longhaul::kernels
