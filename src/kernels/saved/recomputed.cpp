#include "kernels/saved/recomputed.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/saved/saved_tensors.h"

namespace longhaul::kernels {
namespace {

// What a part keeps beside its inputs, in the order in which its runs come to it.
struct BetweenRuns {
  bool recurrences = false;        // what they gave is kept too
  double row_share = 0;            // of products
  SavedTensors* keeper = nullptr;  // of the first run
  std::vector<std::vector<SavedTensor>> kept{};
  // Of tensors whose rows are kept, with what they were at then: a copy may still read them.
  std::vector<std::pair<c10::VariableVersion, uint32_t>> unwritten{};
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

int64_t kept_rows(int64_t rows, bool exact) {
  const double share = between_runs != nullptr ? between_runs->row_share : 0;
  if (!exact && share < 1) return 0;
  return std::min(rows, static_cast<int64_t>(std::ceil(share * static_cast<double>(rows))));
}

std::vector<Tensor> made_in_first_run(int64_t rows, int64_t kept,
                                      const std::function<std::vector<Tensor>(int64_t)>& make) {
  if (between_runs == nullptr || between_runs->keeper == nullptr) return make(0);
  SavedTensors& keeper = *between_runs->keeper;
  std::vector<Tensor> made;
  {
    const at::Device device = keeper.device();
    Event begun(device), ended(device);
    begun.record(Stream::current(device));
    made = make(0);
    ended.record(Stream::current(device));
    int64_t bytes = 0;
    for (const Tensor& each : made) bytes += static_cast<int64_t>(each.nbytes());
    keeper.rows_made(bytes, std::move(begun), std::move(ended));
  }
  if (kept == 0) return made;
  std::vector<SavedTensor>& saved = between_runs->kept.emplace_back();
  for (const Tensor& each : made) {
    LONGHAUL_ASSERT(each.size(0) == rows);
    saved.push_back(SavedTensor::of_rows(each, kept, &keeper));
    const c10::VariableVersion& version = each.unsafeGetTensorImpl()->version_counter();
    between_runs->unwritten.emplace_back(version, version.current_version());
  }
  return made;
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

OutsideParts::OutsideParts() : part_(std::exchange(between_runs, nullptr)) {}
OutsideParts::~OutsideParts() { between_runs = static_cast<BetweenRuns*>(part_); }

bool runs_again() { return between_runs != nullptr && between_runs->again; }

void keep_for_second_run(const std::vector<Tensor>& tensors) {
  if (between_runs == nullptr) return;
  LONGHAUL_ASSERT(!between_runs->again);
  std::vector<SavedTensor>& kept = between_runs->kept.emplace_back();
  for (const Tensor& tensor : tensors)
    kept.emplace_back(tensor.defined() ? tensor.detach() : tensor, between_runs->keeper);
}

std::vector<Tensor> kept_by_first_run() {
  LONGHAUL_ASSERT(runs_again() && between_runs->next < between_runs->kept.size(),
                  "the first run kept nothing here");
  std::vector<Tensor> found;
  for (const SavedTensor& each : std::exchange(between_runs->kept[between_runs->next++], {}))
    found.push_back(each.get());
  return found;
}

std::vector<Tensor> rows_once(int64_t rows, bool exact,
                              const std::function<std::vector<Tensor>(int64_t begin)>& make) {
  const int64_t kept = kept_rows(rows, exact);
  if (!runs_again()) return made_in_first_run(rows, kept, make);
  if (kept == 0) return make(0);
  std::vector<Tensor> made = kept_by_first_run();
  if (kept == rows) return made;
  const std::vector<Tensor> others = make(kept);
  LONGHAUL_ASSERT(others.size() == made.size() && made[0].size(0) == kept, "{} rows were kept of {}",
                  made[0].size(0), rows);
  for (size_t i = 0; i < made.size(); ++i) made[i] = at::cat({made[i], others[i]});
  return made;
}

bool keeps_recurrences() { return between_runs != nullptr && between_runs->recurrences; }

std::vector<Tensor> recurrence_once(const Tensor& initial_state,
                                    const std::function<std::vector<Tensor>()>& compute) {
  if (!keeps_recurrences() || initial_state.defined()) return compute();
  if (runs_again()) return kept_by_first_run();
  std::vector<Tensor> made = compute();
  keep_for_second_run(made);
  return made;
}

Tensor unread_state(at::IntArrayRef sizes, at::TensorOptions options) {
  return at::full({1}, std::numeric_limits<double>::quiet_NaN(), options.requires_grad(false)).expand(sizes);
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
    SavedTensors* const keeper = SavedTensorsScope::current();
    const auto between = std::make_shared<BetweenRuns>(
        BetweenRuns{.recurrences = part.by_tokens,
                    .row_share = keeper != nullptr && part.by_tokens ? keeper->row_share() : 0,
                    .keeper = keeper});
    {
      const BetweenRunsScope keep(*between);
      const at::AutoGradMode record(true);
      const SavedTensorsScope all_stays(nullptr);  // until the part is over
      for (const Tensor& result : part.run(as_leaves(part.inputs, wanted))) {
        if (!result.requires_grad()) recorded.not_recorded.push_back(recorded.results.size());
        recorded.results.push_back(result.variable_data());
      }
      for (const auto& [version, kept_at] : std::exchange(between->unwritten, {}))
        LONGHAUL_ASSERT(version.current_version() == kept_at, "{}: a product's result was written to", op);
    }
    recorded.backward = [wanted, between, inputs_again = part.inputs_again,
                         run_again = part.run_again](const BackwardCall& call) {
      const std::vector<Tensor> leaves = as_leaves(inputs_again(call.saved), wanted);
      LONGHAUL_ASSERT(leaves.size() == wanted.size());
      std::vector<Tensor> results;
      {
        between->again = true;
        const BetweenRunsScope find(*between);
        const at::AutoGradMode record(true);
        const MadeAgain again;
        results = run_again(leaves);
        LONGHAUL_ASSERT(between->next == between->kept.size(), "{} of {} were asked for again", between->next,
                        between->kept.size());
      }
      std::vector<Tensor> gradients = gradients_of(results, call.gradients, leaves);
      gradients.emplace_back();  // of the one that stands for weights
      return gradients;
    };
    return recorded;
  });
}

}  // namespace longhaul::kernels
