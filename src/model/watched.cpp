#include "model/watched.h"

#include "kernels/differentiable.h"

namespace longhaul::model {
namespace {

// The tensors as they are; `meet` is called when all their gradients have come.
void mark(const char* name, std::initializer_list<Tensor*> tensors, std::function<void()> meet) {
  std::vector<Tensor*> there;
  std::vector<Tensor> inputs;
  for (Tensor* tensor : tensors) {
    if (tensor == nullptr || !tensor->defined()) continue;
    there.push_back(tensor);
    inputs.push_back(*tensor);
  }
  const std::vector<Tensor> results = kernels::differentiable(name, inputs, [&]() -> kernels::Recorded {
    std::vector<Tensor> same;
    for (const Tensor& input : inputs) same.push_back(input.detach());
    return {.results = std::move(same),
            .backward =
                [meet = std::move(meet)](const kernels::BackwardCall& call) {
                  meet();
                  return call.gradients;
                },
            .zeros_for_missing = false};
  });
  for (size_t i = 0; i < there.size(); ++i) *there[i] = results[i];
}

}  // namespace

void begin_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> entering) {
  if (watch == nullptr) return;
  watch->before_forward(layer);
  if (watch->follows_backward())
    mark("beginning of a layer", entering, [watch, layer] { watch->after_backward(layer); });
}

void end_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> leaving) {
  if (watch == nullptr) return;
  if (watch->follows_backward())
    mark("end of a layer", leaving, [watch, layer] { watch->before_backward(layer); });
  watch->after_forward(layer);
}

}  // namespace longhaul::model
