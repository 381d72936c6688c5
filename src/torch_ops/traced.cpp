#include "torch_ops/traced.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/differentiable.h"

namespace longhaul::kernels {
namespace {

using torch::jit::Stack;

bool has_gradient(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_floating_point();
}

// Whether somebody looks on: a mode, or a tensor that stands for another one.
bool traced(const Stack& arguments) {
  constexpr c10::DispatchKeySet kStandIns({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return c10::impl::dispatch_mode_enabled() ||
         std::any_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().key_set().has_any(kStandIns);
         });
}

c10::OperatorHandle operator_named(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "");
}

std::vector<Tensor> tensors_of(const Stack& values) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& value : values) tensors.push_back(value.toTensor());
  return tensors;
}

// One an argument of the operator called `name`; `others`: its arguments that are no tensors.
std::vector<Tensor> traced_gradients(const std::string& name, const Stack& others, const BackwardCall& call) {
  Stack stack = others;
  std::vector<size_t> places;  // of the arguments that have a gradient
  for (size_t i = 0; i < stack.size(); ++i) {
    if (!call.saved[i].defined()) continue;
    stack[i] = call.saved[i];
    if (has_gradient(stack[i])) places.push_back(i);
  }
  for (const Tensor& gradient : call.gradients)
    stack.push_back(gradient.defined() ? c10::IValue(gradient) : c10::IValue());
  const size_t space = name.find("::") + 2;
  operator_named(name.substr(0, space) + "_" + name.substr(space) + "_backward").callBoxed(&stack);
  const std::vector<Tensor> given = stack.back().toTensorVector();
  std::vector<Tensor> gradients(others.size());
  for (size_t i = 0; i < places.size(); ++i) gradients[places[i]] = given[i];
  return gradients;
}

Stack take_arguments(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  Stack arguments = torch::jit::last(*stack, count).vec();
  torch::jit::drop(*stack, count);
  return arguments;
}

// What an operator "_<name>_backward" was called with.
struct TracedBackward {
  c10::OperatorHandle forward;
  Stack arguments, gradients;  // of the forward pass; of its results
};

TracedBackward take_backward_call(const c10::OperatorHandle& op, Stack* stack) {
  std::string name = op.schema().name();  // longhaul::_attention_backward
  name.erase(name.rfind("_backward"));
  name.erase(name.find("::_") + 2, 1);
  TracedBackward call{operator_named(name), take_arguments(op, stack), {}};
  const auto first = call.arguments.begin() + static_cast<int64_t>(call.forward.schema().arguments().size());
  call.gradients.assign(first, call.arguments.end());
  call.arguments.erase(first, call.arguments.end());
  return call;
}

}  // namespace

void traced_or_plain(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!traced(*stack)) return op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  const Stack arguments = take_arguments(op, stack);
  std::vector<Tensor> inputs;
  for (const c10::IValue& value : arguments)
    inputs.push_back(has_gradient(value) ? value.toTensor() : Tensor());
  const std::string name = op.schema().name();
  const auto forward = [&]() -> Recorded {
    Stack results = arguments, others;  // others: with nothing in the place of a tensor
    std::vector<Tensor> saved;
    for (const c10::IValue& value : arguments) {
      saved.push_back(value.isTensor() ? value.toTensor() : Tensor());
      others.push_back(value.isTensor() ? c10::IValue() : value);
    }
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(&results);
    return {
        .results = tensors_of(results),
        .saved = saved,
        .backward = [name, others](const BackwardCall& call) { return traced_gradients(name, others, call); },
        .zeros_for_missing = false};
  };
  for (Tensor& output : differentiable(name.c_str(), inputs, forward)) stack->emplace_back(std::move(output));
}

void traced_backward(const c10::OperatorHandle& op, Stack* stack) {
  TracedBackward call = take_backward_call(op, stack);
  const at::AutoGradMode guard(true);
  std::vector<Tensor> inputs, outputs, upstream;
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
  std::vector<Tensor> result =
      torch::autograd::grad(outputs, inputs, upstream, std::nullopt, false, /*allow_unused=*/true);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] =
        result[i].defined() ? result[i].contiguous() : at::zeros(inputs[i].sizes(), inputs[i].options());
  stack->emplace_back(std::move(result));
}

void traced_backward_shapes(const c10::OperatorHandle& op, Stack* stack) {
  std::vector<Tensor> result;
  for (const c10::IValue& value : take_backward_call(op, stack).arguments) {
    if (has_gradient(value))
      result.push_back(at::empty_symint(value.toTensor().sym_sizes(), value.toTensor().options()));
  }
  stack->emplace_back(std::move(result));
}

}  // namespace longhaul::kernels
