#include "kernels/differentiable.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace longhaul::kernels {
namespace {

using torch::autograd::AutogradContext;

// What `backward` gives, the end of an operator's backward pass.
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

struct RecordedPass : torch::CustomClassHolder {
  std::string op;
  std::function<std::vector<Tensor>(const BackwardCall&)> backward;
  std::vector<GradientSink> sinks;
  std::vector<bool> defined;  // of the inputs: autograd knows the defined ones only
};

class RecordedFunction : public torch::autograd::Function<RecordedFunction> {
 public:
  static std::vector<Tensor> forward(AutogradContext* context, at::TensorList, const std::function<Recorded()>& run,
                                     const c10::intrusive_ptr<RecordedPass>& record) {
    Recorded recorded = run();
    record->backward = std::move(recorded.backward);
    record->sinks = std::move(recorded.sinks);
    context->saved_data["record"] = c10::IValue::make_capsule(record);
    context->set_materialize_grads(recorded.zeros_for_missing);
    context->save_for_backward(std::move(recorded.saved));
    if (!recorded.not_recorded.empty()) {
      std::vector<Tensor> constants;
      for (const size_t i : recorded.not_recorded) constants.push_back(recorded.results[i]);
      context->mark_non_differentiable(constants);
    }
    return std::move(recorded.results);
  }

  static std::vector<Tensor> backward(AutogradContext* context, std::vector<Tensor> gradients) {
    const auto record = c10::static_intrusive_pointer_cast<RecordedPass>(context->saved_data.at("record").toCapsule());
    return once_differentiable(record->op.c_str(), [&] {
      BackwardCall call{context->get_saved_variables(), std::move(gradients), {}};
      size_t edge = 0;
      for (const bool defined : record->defined) call.wanted.push_back(defined && context->needs_input_grad(edge++));
      const std::vector<Tensor> all = record->backward(call);
      LONGHAUL_ASSERT(all.size() == record->defined.size(), "{}: {} gradients for {} inputs", record->op, all.size(),
                      record->defined.size());
      std::vector<Tensor> result;
      for (size_t i = 0; i < all.size(); ++i) {
        if (record->defined[i]) result.push_back(all[i]);
      }
      result.resize(result.size() + 2);  // of `run` and `record`
      return result;
    });
  }
};

}  // namespace

std::vector<Tensor> differentiable(const char* op, const std::vector<Tensor>& inputs, const std::function<Recorded()>& forward) {
  const auto record = c10::make_intrusive<RecordedPass>();
  record->op = op;
  std::vector<Tensor> defined;
  for (const Tensor& input : inputs) {
    record->defined.push_back(input.defined());
    if (input.defined()) defined.push_back(input);
  }
  const bool recorded =
      at::GradMode::is_enabled() && std::ranges::any_of(defined, [](const Tensor& input) { return input.requires_grad(); });
  std::vector<Tensor> results = RecordedFunction::apply(at::TensorList(defined), forward, record);
  if (recorded) {
    for (const GradientSink& sink : record->sinks) sink.announce();
  }
  return results;
}

}  // namespace longhaul::kernels
