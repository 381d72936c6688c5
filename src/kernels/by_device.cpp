#include "kernels/by_device.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

namespace longhaul::kernels {
namespace {

class GradientToSink : public torch::autograd::Function<GradientToSink> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& value, const Tensor& sink) {
    context->saved_data["sink"] = sink;
    return value.view_as(value);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    if (gradients[0].defined()) context->saved_data["sink"].toTensor().add_(gradients[0]);
    return {Tensor(), Tensor()};
  }
};

class MetaFunction : public torch::autograd::Function<MetaFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                                                const std::vector<MetaResult>& results) {
    context->save_for_backward(inputs.vec());
    torch::autograd::variable_list outputs;
    for (const MetaResult& each : results) outputs.push_back(at::empty(each.sizes, at::TensorOptions().dtype(each.type).device(at::kMeta)));
    return outputs;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list&) {
    torch::autograd::variable_list gradients;
    for (const Tensor& input : context->get_saved_variables()) gradients.push_back(at::empty(input.sizes(), input.options()));
    gradients.emplace_back();
    return gradients;
  }
};

}  // namespace

ByDevice choose_by_device(const char* op, const Tensor& x, Refusal cuda_refusal) {
  static constexpr std::string_view kImplementations[] = {"cuda", "cpu", "meta", "aten"};
  return static_cast<ByDevice>(Dispatcher(op, kImplementations).choose([&](size_t i) {
    switch (static_cast<ByDevice>(i)) {
      case ByDevice::kCuda:
        return cuda_refusal;
      case ByDevice::kCpu:
        return x.is_cpu() ? Refusal() : kNotOnCpu;
      case ByDevice::kMeta:
        return x.is_meta() ? Refusal() : kNotMeta;
      default:
        return Refusal();
    }
  }));
}

std::vector<Tensor> meta_results(const std::vector<Tensor>& inputs, const std::vector<MetaResult>& results) {
  std::vector<Tensor> defined;
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(defined), [](const Tensor& x) { return x.defined(); });
  return MetaFunction::apply(at::TensorList(defined), results);
}

std::vector<Tensor> once_differentiable(const char* op, const std::function<std::vector<Tensor>()>& backward) {
  std::vector<Tensor> gradients;
  {
    const at::NoGradGuard guard;
    gradients = backward();
  }
  if (!at::GradMode::is_enabled()) return gradients;
  for (Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = gradient.detach().requires_grad_(true);
  }
  const auto node = std::make_shared<torch::autograd::DelayedError>(fmt::format("{} has no second derivative", op),
                                                                    static_cast<int64_t>(gradients.size()));
  return (*node)(std::move(gradients));
}

Tensor with_gradient_to(const Tensor& value, const Tensor& sink) {
  if (!sink.defined() || !at::GradMode::is_enabled()) return value.detach();
  return GradientToSink::apply(value.detach().requires_grad_(true), sink);
}

}  // namespace longhaul::kernels
