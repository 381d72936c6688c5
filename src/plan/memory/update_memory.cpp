#include "plan/memory/update_memory.h"

#include <algorithm>
#include <cmath>

#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::plan {
namespace {

constexpr double kTogether = 1 << 22;  // elements that Muon::in_groups waits for
constexpr double kSum = 8;             // bytes: sums are fp64

}  // namespace

void UpdateMemory::Group::add(double each, double times) {
  elements += each * times;
  largest = std::max(largest, each);
}

double UpdateMemory::Group::at_once() const {
  return largest == 0 ? 0 : std::min(elements, std::ceil(kTogether / largest) * largest);
}

void UpdateMemory::add(const layout::ParameterSpec& spec, const layout::Shape& share, double ranks,
                       double times) {
  if (!spec.trainable) return;
  const layout::Shape& shape = spec.tensor.global_shape;
  const recipe::OptimOptions rule =
      recipe::optim_rule(options_, recipe::rule_of(options_, spec.tensor.role, spec.layer, shape, spec.set))
          .options;
  factors_ += times * static_cast<double>(recipe::state_elements(rule, share).factors);
  if (!recipe::optimizer_entry(rule.name).whole_matrices) return;
  const auto elements = static_cast<double>(spec.elements());
  if (ranks == 1) return whole_.add(elements, times);
  shared_ += times * elements;
  own_.add(elements, times / ranks);
}

// There is one sum for each row and column of which the states have a number. Muon: directions of all shared
// matrices and their results, which are exchanged together; in addition results of those that are being
// computed; after that, for the other matrices, copies of directions (with Nesterov's) and results.
double UpdateMemory::bytes() const {
  const double copies = options_.nesterov ? 2 : 1;
  const double elements = std::max(2 * shared_ + own_.at_once(), shared_ + copies * whole_.at_once());
  return kSum * factors_ + static_cast<double>(wide_) * elements;
}

}  // namespace longhaul::plan
