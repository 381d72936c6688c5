#include "kernels/recomputed.h"

#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/saved_tensors.h"

namespace longhaul::kernels {
namespace {

// What a part keeps beside its inputs, in the order in which its runs come to it.
struct BetweenRuns {
  std::vector<std::vector<Tensor>> kept;
  bool again = false;
  size_t next = 0;  // to be found
};

thread_local BetweenRuns* between_runs = nullptr;  // of the part that this thread runs; null: none

class BetweenRunsScope {
 public:
  explicit BetweenRunsScope(BetweenRuns& of_part) : before_(between_runs) { between_runs = &of_part; }
  ~BetweenRunsScope() { between_runs = before_; }
  BetweenRunsScope(const BetweenRunsScope&) = delete;
  BetweenRunsScope& operator=(const BetweenRunsScope&) = delete;

 private:
  BetweenRuns* before_;
};

// Of what was saved behind `first` tensors, as many as the first run kept each time.
BetweenRuns found_again(const std::vector<Tensor>& saved, size_t first, const std::vector<size_t>& counts) {
  BetweenRuns found{.kept = {}, .again = true};
  for (const size_t count : counts) {
    const auto begin = saved.begin() + static_cast<std::ptrdiff_t>(first);
    found.kept.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(count));
    first += count;
  }
  return found;
}

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

bool runs_again() { return between_runs != nullptr && between_runs->again; }

void keep_for_second_run(std::vector<Tensor> tensors) {
  if (between_runs == nullptr) return;
  LONGHAUL_ASSERT(!between_runs->again);
  for (Tensor& tensor : tensors) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  between_runs->kept.push_back(std::move(tensors));
}

std::vector<Tensor> kept_by_first_run() {
  LONGHAUL_ASSERT(runs_again() && between_runs->next < between_runs->kept.size(),
                  "the first run kept nothing here");
  return std::move(between_runs->kept[between_runs->next++]);
}

std::vector<Tensor> recomputed(const char* op, const RecomputedPart& part) {
  if (!at::GradMode::is_enabled()) return part.run(part.inputs);
  std::vector<bool> wanted;
  std::vector<Tensor> inputs = part.inputs;
  for (const Tensor& input : part.inputs) wanted.push_back(input.requires_grad());
  // Its weights may want gradients where its inputs do not: a part is always recorded.
  inputs.push_back(at::empty({0}, part.inputs.at(0).options().requires_grad(false)).requires_grad_(true));

  return differentiable(op, inputs, [&]() -> Recorded {
    Recorded recorded{.saved = part.kept, .zeros_for_missing = false};
    std::vector<size_t> counts;  // of what the run kept
    {
      BetweenRuns first_run;
      const BetweenRunsScope keep(first_run);
      const at::AutoGradMode record(true);
      const SavedTensorsScope all_stays(nullptr);  // until the part is over
      for (const Tensor& result : part.run(as_leaves(part.inputs, wanted))) {
        if (!result.requires_grad()) recorded.not_recorded.push_back(recorded.results.size());
        recorded.results.push_back(result.variable_data());
      }
      for (const std::vector<Tensor>& tensors : first_run.kept) {
        counts.push_back(tensors.size());
        recorded.saved.insert(recorded.saved.end(), tensors.begin(), tensors.end());
      }
    }
    recorded.backward = [wanted, counts, inputs = part.kept.size(), inputs_again = part.inputs_again,
                         run_again = part.run_again](const BackwardCall& call) {
      const auto of_inputs = call.saved.begin() + static_cast<std::ptrdiff_t>(inputs);
      const std::vector<Tensor> leaves = as_leaves(inputs_again({call.saved.begin(), of_inputs}), wanted);
      LONGHAUL_ASSERT(leaves.size() == wanted.size());
      std::vector<Tensor> results;
      {
        BetweenRuns second_run = found_again(call.saved, inputs, counts);
        const BetweenRunsScope find(second_run);
        const at::AutoGradMode record(true);
        const MadeAgain again;
        results = run_again(leaves);
        LONGHAUL_ASSERT(second_run.next == second_run.kept.size(), "{} of {} were asked for again",
                        second_run.next, second_run.kept.size());
      }
      std::vector<Tensor> gradients = gradients_of(results, call.gradients, leaves);
      gradients.emplace_back();  // of the one that stands for weights
      return gradients;
    };
    return recorded;
  });
}

}  // namespace longhaul::kernels
