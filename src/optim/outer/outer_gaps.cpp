#include "optim/outer/outer_gaps.h"

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace longhaul::optim {

OuterGaps::OuterGaps(const OuterWeights& weights, const model::ParameterSet& parameters,
                     const parallel::Ranks& ranks)
    : weights_(weights), ranks_(ranks) {
  for (const auto& parameter : parameters.all()) {
    if (!parameter->trainable()) continue;
    for (size_t part = 0; part < parameter->parts.size(); ++part) {
      layout::AxisSet cut;
      for (const model::Part::Cut& each : parameter->parts[part].cuts) cut = cut | each.over;
      held_.push_back({parameter.get(), part, partials_.reserve(cut, 1)});
    }
  }
  LONGHAUL_ASSERT(held_.size() == weights.tensors(), "gaps of other tensors than the weights'");
  first_steps_ = at::zeros({static_cast<int64_t>(held_.size())}, at::kDouble);
  movements_ = at::zeros_like(first_steps_);
}

void OuterGaps::lengths(const std::vector<double>& squares, const Tensor& lengths) {
  partials_.clear(at::kCPU);
  for (size_t t = 0; t < held_.size(); ++t) partials_[held_[t].place].fill_(squares[t]);
  Partials::reduce({&partials_}, [&](layout::AxisSet over, const Tensor& numbers, comm::Reduction how) {
    if (ranks_.groups() != nullptr) ranks_.reduce_over(over, numbers, how);
  });
  double* const of = lengths.mutable_data_ptr<double>();
  for (size_t t = 0; t < held_.size(); ++t) of[t] = std::sqrt(partials_[held_[t].place].item<double>());
}

void OuterGaps::note_first_step() { lengths(weights_.squared_distances().of_tensors, first_steps_); }
void OuterGaps::note_movement() { lengths(weights_.squared_movements(), movements_); }

double OuterGaps::mean(std::span<const double> gaps) {
  double sum = 0, tensors = 0;
  for (size_t t = 0; t < held_.size(); ++t) {
    if (holds_first(held_[t].parameter->parts[held_[t].part])) sum += gaps[t], tensors += 1;
  }
  const Tensor both = at::tensor({sum, tensors}, at::kDouble);
  ranks_.sum(both, "gaps of the outer loop");
  return both[0].item<double>() / both[1].item<double>();
}

std::vector<double> OuterGaps::first_steps() const {
  const double* const of = first_steps_.const_data_ptr<double>();
  return {of, of + held_.size()};
}

std::vector<double> OuterGaps::gaps(std::span<const double> arrived, double workers, int64_t steps) const {
  const double* const moved = movements_.const_data_ptr<double>();
  std::vector<double> all(held_.size(), 1);
  for (size_t t = 0; t < all.size(); ++t) {
    const double reach = static_cast<double>(steps) * arrived[t] / workers;
    if (reach > 0) all[t] += moved[t] / reach;
  }
  return all;
}

void OuterGaps::forget() {
  first_steps_.zero_();
  movements_.zero_();
}

std::vector<StateTensor> OuterGaps::state() const {
  std::vector<StateTensor> all;
  for (size_t t = 0; t < held_.size(); ++t) {
    const model::Part& part = held_[t].parameter->parts[held_[t].part];
    const auto add = [&](std::string_view kind, const Tensor& number) {
      all.push_back({.name = part.spec.tensor.name,
                     .kind = std::string(kind),
                     .global_shape = {1},
                     .held = {{0}, {1}},
                     .first_copy = holds_first(part),
                     .view = number});
    };
    add(kOwn, first_steps_.narrow(0, static_cast<int64_t>(t), 1));
    add("outer_first_steps", weights_.number_of_tensor(t));
    add("outer_movement", movements_.narrow(0, static_cast<int64_t>(t), 1));
  }
  return all;
}

}  // namespace longhaul::optim
