#include "model/watched.h"

#include "kernels/differentiable.h"
#include "tensor/replay_arena.h"

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

// A memory plan is cut where layers begin and end (tensor/replay_arena.h).
bool follows_backward(const ParameterWatch* watch) {
  return ReplayArena::in_use() || (watch != nullptr && watch->follows_backward());
}

}  // namespace

void begin_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> entering) {
  ReplayArena::cut();
  if (watch != nullptr) watch->before_forward(layer);
  if (!follows_backward(watch)) return;
  mark("beginning of a layer", entering, [watch, layer] {
    if (watch != nullptr && watch->follows_backward()) watch->after_backward(layer);
    ReplayArena::cut();
  });
}

void end_layer(ParameterWatch* watch, int64_t layer, std::initializer_list<Tensor*> leaving) {
  if (follows_backward(watch))
    mark("end of a layer", leaving, [watch, layer] {
      ReplayArena::cut();
      if (watch != nullptr && watch->follows_backward()) watch->before_backward(layer);
    });
  if (watch != nullptr) watch->after_forward(layer);
  ReplayArena::cut();
}

}  // namespace longhaul::model
