#include "kernels/recomputed.h"

#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/saved_tensors.h"

namespace longhaul::kernels {
namespace {

// The ends of a graph of its own; where nobody wants a gradient, a constant as before.
std::vector<Tensor> as_leaves(const std::vector<Tensor>& inputs, const std::vector<bool>& wanted) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < inputs.size(); ++i) leaves.push_back(inputs[i].detach().requires_grad_(wanted[i]));
  return leaves;
}

// Of `leaves`, one each.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& results, const std::vector<Tensor>& gradients,
                                 const std::vector<Tensor>& leaves) {
  std::vector<Tensor> ends, with;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!gradients[i].defined() || !results[i].requires_grad()) continue;
    ends.push_back(results[i]);
    with.push_back(gradients[i]);
  }
  if (!ends.empty()) torch::autograd::backward(ends, with);
  std::vector<Tensor> found;
  for (const Tensor& leaf : leaves) found.push_back(leaf.grad());
  return found;
}

}  // namespace

std::vector<Tensor> recomputed(const char* op, const RecomputedPart& part) {
  if (!at::GradMode::is_enabled()) return part.run(part.inputs);
  std::vector<bool> wanted;
  std::vector<Tensor> inputs = part.inputs;
  for (const Tensor& input : part.inputs) wanted.push_back(input.requires_grad());
  // Its weights may want gradients where its inputs do not: a part is always recorded.
  inputs.push_back(at::empty({0}, part.inputs.at(0).options().requires_grad(false)).requires_grad_(true));

  return differentiable(op, inputs, [&]() -> Recorded {
    Recorded recorded{.saved = part.kept, .zeros_for_missing = false};
    {
      const at::AutoGradMode record(true);
      const SavedTensorsScope all_stays(nullptr);  // until the part is over
      for (const Tensor& result : part.run(as_leaves(part.inputs, wanted))) {
        if (!result.requires_grad()) recorded.not_recorded.push_back(recorded.results.size());
        recorded.results.push_back(result.variable_data());
      }
    }
    recorded.backward = [wanted, inputs_again = part.inputs_again, run_again = part.run_again](const BackwardCall& call) {
      const std::vector<Tensor> leaves = as_leaves(inputs_again(call.saved), wanted);
      LONGHAUL_ASSERT(leaves.size() == wanted.size());
      std::vector<Tensor> results;
      {
        const at::AutoGradMode record(true);
        const MadeAgain again;
        results = run_again(leaves);
      }
      std::vector<Tensor> gradients = gradients_of(results, call.gradients, leaves);
      gradients.emplace_back();  // of the one that stands for weights
      return gradients;
    };
    return recorded;
  });
}

}  // namespace longhaul::kernels
