#include "kernels/by_device.h"

#include "kernels/differentiable.h"

namespace longhaul::kernels {
ByDevice choose_by_device(const char* op, const Tensor& x, Refusal cuda_refusal, Refusal cpu_refusal) {
  static constexpr std::string_view kImplementations[] = {"cuda", "cpu", "meta", "aten"};
  return static_cast<ByDevice>(Dispatcher(op, kImplementations).choose([&](size_t i) {
    switch (static_cast<ByDevice>(i)) {
      case ByDevice::kCuda:
        return cuda_refusal;
      case ByDevice::kCpu:
        return x.is_cpu() ? cpu_refusal : kNotOnCpu;
      case ByDevice::kMeta:
        return x.is_meta() ? Refusal() : kNotMeta;
      default:
        return Refusal();
    }
  }));
}

std::vector<Tensor> meta_results(const std::vector<Tensor>& inputs, const std::vector<MetaResult>& results,
                                 const std::vector<GradientSink>& sinks) {
  return differentiable("meta", inputs, [&]() -> Recorded {
    Recorded recorded{.saved = inputs,
                      .backward =
                          [sinks](const BackwardCall& call) {
                            for (const GradientSink& sink : sinks) sink.add([](const Tensor&) {});
                            std::vector<Tensor> gradients = call.saved;
                            for (Tensor& each : gradients)
                              each = each.defined() ? at::empty(each.sizes(), each.options()) : each;
                            return gradients;
                          },
                      .sinks = sinks};
    for (const MetaResult& each : results)
      recorded.results.push_back(
          at::empty(each.sizes, at::TensorOptions().dtype(each.type).device(at::kMeta)));
    return recorded;
  });
}

Tensor with_gradient_to(const Tensor& value, const GradientSink& sink) {
  if (!sink.wanted() || !at::GradMode::is_enabled()) return value.detach();
  const Tensor leaf = value.detach().requires_grad_(true);
  return differentiable("with_gradient_to", {leaf}, [&]() -> Recorded {
    return {.results = {leaf.view_as(leaf)},
            .backward =
                [sink](const BackwardCall& call) {
                  sink.add([gradient = call.gradients[0]](const Tensor& buffer) { buffer.add_(gradient); });
                  return std::vector<Tensor>(1);
                },
            .sinks = {sink}};
  })[0];
}

}  // namespace longhaul::kernels
