#include "library/traced.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/by_device.h"

namespace longhaul::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

bool has_gradient(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point();
}

// Whether somebody looks on: a mode, or a tensor that stands for another one.
bool traced(const Stack& arguments) {
  constexpr c10::DispatchKeySet kStandIns({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return c10::impl::dispatch_mode_enabled() || std::any_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().key_set().has_any(kStandIns);
         });
}

c10::OperatorHandle operator_named(const std::string& name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), ""); }

variable_list tensors_of(const Stack& values) {
  variable_list tensors;
  for (const c10::IValue& value : values) tensors.push_back(value.toTensor());
  return tensors;
}

class TracedFunction : public torch::autograd::Function<TracedFunction> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList, const c10::OperatorHandle& op, const Stack& arguments) {
    variable_list tensors;
    c10::impl::GenericList others(c10::AnyType::get());  // with nothing in the place of a tensor
    for (const c10::IValue& value : arguments) {
      tensors.push_back(value.isTensor() ? value.toTensor() : Tensor());
      others.push_back(value.isTensor() ? c10::IValue() : value);
    }
    context->set_materialize_grads(false);
    context->save_for_backward(tensors);
    context->saved_data["others"] = others;
    context->saved_data["op"] = op.schema().name();
    Stack stack = arguments;
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(&stack);
    return tensors_of(stack);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::string name = context->saved_data["op"].toStringRef();
    return once_differentiable(name.c_str(), [&]() -> variable_list {
      const variable_list tensors = context->get_saved_variables();
      const auto others = context->saved_data["others"].toList();
      Stack stack;
      for (size_t i = 0; i < tensors.size(); ++i) stack.push_back(tensors[i].defined() ? c10::IValue(tensors[i]) : others.get(i));
      for (const Tensor& gradient : gradients) stack.push_back(gradient.defined() ? c10::IValue(gradient) : c10::IValue());
      const size_t space = name.find("::") + 2;
      operator_named(name.substr(0, space) + "_" + name.substr(space) + "_backward").callBoxed(&stack);
      variable_list result = stack.back().toTensorVector();
      result.resize(result.size() + 2);  // of the operator and the list of its arguments
      return result;
    });
  }
};

Stack take_arguments(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Stack arguments = torch::jit::last(*stack, count).vec();
  torch::jit::drop(*stack, count);
  return arguments;
}

// What an operator "_<name>_backward" was called with.
struct BackwardCall {
  c10::OperatorHandle forward;
  Stack arguments, gradients;  // of the forward pass; of its results
};

BackwardCall take_backward_call(const c10::OperatorHandle& op, Stack* stack) {
  std::string name = op.schema().name();  // longhaul::_attention_backward
  name.erase(name.rfind("_backward"));
  name.erase(name.find("::_") + 2, 1);
  BackwardCall call{operator_named(name), take_arguments(op, stack), {}};
  const auto first = call.arguments.begin() + static_cast<int64_t>(call.forward.schema().arguments().size());
  call.gradients.assign(first, call.arguments.end());
  call.arguments.erase(first, call.arguments.end());
  return call;
}

}  // namespace

void differentiable(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!traced(*stack)) return op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  const Stack arguments = take_arguments(op, stack);
  variable_list inputs;
  for (const c10::IValue& value : arguments) {
    if (has_gradient(value)) inputs.push_back(value.toTensor());
  }
  for (Tensor& output : TracedFunction::apply(at::TensorList(inputs), op, arguments)) stack->emplace_back(std::move(output));
}

void traced_backward(const c10::OperatorHandle& op, Stack* stack) {
  BackwardCall call = take_backward_call(op, stack);
  const at::AutoGradMode guard(true);
  variable_list inputs, outputs, upstream;
  for (c10::IValue& value : call.arguments) {
    if (!has_gradient(value)) continue;
    inputs.push_back(value.toTensor().detach().requires_grad_(true));
    value = inputs.back();
  }
  call.forward.callBoxed(&call.arguments);  // which leaves the results there
  for (size_t i = 0; i < call.gradients.size(); ++i) {
    if (!call.gradients[i].isTensor()) continue;
    outputs.push_back(call.arguments[i].toTensor());
    upstream.push_back(call.gradients[i].toTensor().detach());
  }
  variable_list result = torch::autograd::grad(outputs, inputs, upstream, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = result[i].defined() ? result[i].contiguous() : at::zeros(inputs[i].sizes(), inputs[i].options());
  stack->emplace_back(std::move(result));
}

void traced_backward_shapes(const c10::OperatorHandle& op, Stack* stack) {
  variable_list result;
  for (const c10::IValue& value : take_backward_call(op, stack).arguments) {
    if (has_gradient(value)) result.push_back(at::empty_symint(value.toTensor().sym_sizes(), value.toTensor().options()));
  }
  stack->emplace_back(std::move(result));
}

}  // namespace longhaul::kernels
