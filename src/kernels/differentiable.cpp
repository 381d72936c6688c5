#include "kernels/differentiable.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/operator_clock.h"
#include "kernels/saved/saved_tensors.h"

namespace longhaul::kernels {
namespace {

using torch::autograd::AutogradContext;

thread_local int passes_made_again = 0;

// What `backward` gives, the end of an operator's backward pass.
std::vector<Tensor> once_differentiable(const char* op,
                                        const std::function<std::vector<Tensor>()>& backward) {
  std::vector<Tensor> gradients;
  {
    const at::NoGradGuard guard;
    gradients = backward();
  }
  if (!at::GradMode::is_enabled()) return gradients;
  for (Tensor& gradient : gradients) {
    if (gradient.defined()) gradient = gradient.detach().requires_grad_(true);
  }
  const auto node = std::make_shared<torch::autograd::DelayedError>(
      fmt::format("{} has no second derivative", op), static_cast<int64_t>(gradients.size()));
  return (*node)(std::move(gradients));
}

struct RecordedPass : torch::CustomClassHolder {
  std::string op;
  std::function<std::vector<Tensor>(const BackwardCall&)> backward;
  std::vector<GradientSink> sinks;
  std::vector<bool> defined;                          // of the inputs: autograd knows the defined ones only
  std::vector<std::pair<size_t, SavedTensor>> taken;  // of what is saved: by its number
};

// Takes what the thread's SavedTensors wants out of `recorded.saved`.
void hand_over(Recorded& recorded, RecordedPass& record) {
  SavedTensors* const keeper = SavedTensorsScope::current();
  if (keeper == nullptr) return;
  for (CheapTensor& cheap : recorded.cheap) {
    std::vector<SavedTensor> from;
    for (const Tensor& each : cheap.from) from.emplace_back(each, keeper);
    keeper->can_be_made_again(cheap.tensor, [from = std::move(from), make = std::move(cheap.make)] {
      std::vector<Tensor> tensors;
      for (const SavedTensor& each : from) tensors.push_back(each.get());
      return make(tensors);
    });
  }
  for (size_t i = 0; i < recorded.saved.size(); ++i) {
    SavedTensor saved(recorded.saved[i], keeper);
    if (!saved.taken()) continue;
    recorded.saved[i] = Tensor();
    record.taken.emplace_back(i, std::move(saved));
  }
}

class RecordedFunction : public torch::autograd::Function<RecordedFunction> {
 public:
  static std::vector<Tensor> forward(AutogradContext* context, at::TensorList inputs,
                                     const std::function<Recorded()>& run,
                                     const c10::intrusive_ptr<RecordedPass>& record) {
    OperatorFrame frame(record->op, "forward");
    Recorded recorded = run();
    frame.moves(inputs.vec());
    frame.moves(recorded.results);
    frame.moves(recorded.saved);
    record->backward = std::move(recorded.backward);
    record->sinks = std::move(recorded.sinks);
    hand_over(recorded, *record);
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
    const auto record =
        c10::static_intrusive_pointer_cast<RecordedPass>(context->saved_data.at("record").toCapsule());
    return once_differentiable(record->op.c_str(), [&] {
      BackwardCall call{context->get_saved_variables(), std::move(gradients), {}};
      // A product that waits (gradient_sink.h) holds what it reads, and shall not hold the graph behind that.
      for (Tensor& saved : call.saved) {
        if (saved.defined()) saved = saved.detach().requires_grad_(saved.requires_grad());
      }
      for (const auto& [i, saved] : record->taken) call.saved[i] = saved.get();
      record->taken.clear();
      size_t edge = 0;
      for (const bool defined : record->defined)
        call.wanted.push_back(defined && context->needs_input_grad(edge++));
      OperatorFrame frame(record->op, "backward");
      const std::vector<Tensor> all = record->backward(call);
      frame.moves(call.saved);
      frame.moves(call.gradients);
      frame.moves(all);
      LONGHAUL_ASSERT(all.size() == record->defined.size(), "{}: {} gradients for {} inputs", record->op,
                      all.size(), record->defined.size());
      std::vector<Tensor> result;
      for (size_t i = 0; i < all.size(); ++i) {
        if (record->defined[i]) result.push_back(all[i]);
      }
      result.resize(result.size() + 2);  // of `run` and `record`
      return result;
    });
  }
};

// Makes no node of a graph, for inference, where nobody records: a node costs single tokens as much as a
// small operator does. An input that is given back is another object, as autograd makes it.
std::vector<Tensor> results_alone(const char* op, const std::vector<Tensor>& inputs,
                                  const std::function<Recorded()>& forward) {
  const at::NoGradGuard guard;
  OperatorFrame frame(op, "forward");
  Recorded recorded = forward();
  frame.moves(inputs);
  frame.moves(recorded.results);
  frame.moves(recorded.saved);
  for (Tensor& result : recorded.results) {
    if (std::ranges::any_of(inputs, [&](const Tensor& input) { return input.is_same(result); }))
      result = result.detach();
  }
  return std::move(recorded.results);
}

}  // namespace

MadeAgain::MadeAgain() { ++passes_made_again; }
MadeAgain::~MadeAgain() { --passes_made_again; }

std::vector<Tensor> differentiable(const char* op, const std::vector<Tensor>& inputs,
                                   const std::function<Recorded()>& forward) {
  std::vector<Tensor> defined;
  std::ranges::copy_if(inputs, std::back_inserter(defined),
                       [](const Tensor& input) { return input.defined(); });
  if (!at::GradMode::is_enabled() && SavedTensorsScope::current() == nullptr)
    return results_alone(op, defined, forward);
  const auto record = c10::make_intrusive<RecordedPass>();
  record->op = op;
  for (const Tensor& input : inputs) record->defined.push_back(input.defined());
  const bool recorded = at::GradMode::is_enabled() && std::ranges::any_of(defined, [](const Tensor& input) {
                          return input.requires_grad();
                        });
  std::vector<Tensor> results = RecordedFunction::apply(at::TensorList(defined), forward, record);
  if (recorded && passes_made_again == 0) {
    for (const GradientSink& sink : record->sinks) sink.announce();
  }
  return results;
}

}  // namespace longhaul::kernels
