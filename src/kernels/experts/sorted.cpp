#include "kernels/experts/sorted.h"

#include <numeric>

#include "kernels/experts/rows.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

// Rows of each expert, when nobody knows the choices: spread evenly, as assign_experts does.
std::vector<int64_t> spread(int64_t rows, int64_t experts) {
  std::vector<int64_t> result;
  for (int64_t e = 0; e < experts; ++e) result.push_back(rows / experts + (e < rows % experts ? 1 : 0));
  return result;
}

}  // namespace

SortedByExpert::SortedByExpert(const Tensor& choice, ExpertRange of, bool every) : every_(every) {
  if (every) {
    assignment_ = assign_experts(choice, of.count);
    return;
  }
  if (choice.is_meta()) {  // nobody knows which are wanted: room for all
    assignment_.rows_per_expert = spread(choice.numel(), of.count);
    choice_r_ = assignment_.source_r = at::empty({choice.numel()}, choice.options());
    return;
  }
  // Whatever is not wanted is sorted behind the last expert, and left off.
  const Tensor wanted = choice.ge(of.first).logical_and(choice.lt(of.first + of.count));
  const Tensor expert = at::where(wanted, choice.sub(of.first), of.count).reshape({-1});
  const Tensor order = std::get<1>(expert.sort(/*stable=*/true, 0, /*descending=*/false));
  const Tensor counts = at::bincount(expert, {}, of.count + 1).cpu();
  const int64_t* const count = counts.const_data_ptr<int64_t>();
  assignment_.rows_per_expert.assign(count, count + of.count);
  choice_r_ = order.narrow(0, 0, std::accumulate(count, count + of.count, int64_t{0})).contiguous();
  assignment_.source_r = choice_r_.div(choice.size(1), "floor");
}

Tensor SortedByExpert::rows(const Tensor& x) const {
  return every_ ? permute_to_experts(x, assignment_) : take_rows(x, assignment_.source_r);
}

Tensor SortedByExpert::back(const Tensor& y, const Tensor& weight) const {
  if (every_) return combine_experts(y, weight, assignment_);
  const Tensor of_rows = take_rows(weight.reshape({-1, 1}), choice_r_);
  return sum_rows(y.to(weight.scalar_type()).mul(of_rows), assignment_.source_r, weight.size(0))
      .to(y.scalar_type());
}

}  // namespace longhaul::kernels
