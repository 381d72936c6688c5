#include "train/passes.h"

#include <algorithm>
#include <numeric>

namespace longhaul::train {

void Passes::run(const layout::Schedule& schedule) {
  const int64_t replica = options_.replica.value_or(ranks_.place().coordinate(layout::Axis::kDp));
  first_micro_batch_ = replica * options_.micro_batches.value_or(schedule.micro_batches);
  parallel::run_schedule(schedule, ranks_, task_.parameters(), *this);
}

Tensor Passes::input_memory(int64_t micro_batch) {
  const StageInput input = task_.stage_input(micro_batch);
  return at::empty(input.sizes, at::TensorOptions().dtype(input.type).device(task_.parameters().device()));
}

Tensor Passes::forward_chunk(int64_t chunk, int64_t micro_batch, const Tensor& entering) {
  model::Context context(ranks_.ops(), task_.precision());
  context.training = options_.training;
  context.seed = options_.seed;
  context.step = options_.step;
  context.micro_batch = first_micro_batch_ + micro_batch;
  context.choices_so_far = choices_so_far_;
  context.chunk = chunk;
  context.inspect = options_.inspect;
  context.auxiliary_scale = options_.auxiliary_scale;
  const Tensor leaving = task_.forward(context, micro_batch, entering);
  if (ranks_.place().stage_of(chunk) == ranks_.place().pipeline().stages() - 1)
    losses_.add(leaving.detach(), micro_batch);
  for (const auto& [block, auxiliary] : context.auxiliary_losses)
    auxiliary_losses_.add(auxiliary, micro_batch);
  for (const auto& [name, of_blocks] : context.statistics) {
    for (const auto& [block, value] : of_blocks) statistics_[name].add(value, micro_batch);
  }
  for (const auto& [router, count] : context.choices_of_routers) {
    Tensor& sum = choices_of_routers_[router];
    sum = sum.defined() ? sum + count : count;
  }
  return leaving;
}

Metric Passes::statistic(const std::string& name) const {
  const auto found = statistics_.find(name);
  if (found == statistics_.end()) return {};
  return {sum_of(found->second), static_cast<double>(found->second.values.size())};
}

std::vector<double> Passes::statistics(const std::string& name) const {
  const auto found = statistics_.find(name);
  return found == statistics_.end() ? std::vector<double>() : by_micro_batch(found->second);
}

std::vector<double> Passes::fetched(const Scalars& scalars) {
  if (scalars.values.empty()) return {};
  const Tensor all = at::stack(scalars.values).cpu();
  const double* const value = all.const_data_ptr<double>();
  return {value, value + all.numel()};
}

double Passes::sum_of(const Scalars& scalars) {
  const std::vector<double> values = fetched(scalars);
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Of one micro-batch in the order of its blocks.
std::vector<double> Passes::by_micro_batch(const Scalars& scalars) {
  const std::vector<double> values = fetched(scalars);
  if (values.empty()) return {};
  std::vector<double> sums(static_cast<size_t>(std::ranges::max(scalars.micro_batches)) + 1);
  for (size_t i = 0; i < values.size(); ++i) sums[static_cast<size_t>(scalars.micro_batches[i])] += values[i];
  return sums;
}

}  // namespace longhaul::train
