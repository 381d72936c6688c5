#include "optim/shard.h"

#include <algorithm>

namespace longhaul::optim {

layout::AxisSet Shard::cut() const {
  layout::AxisSet all;
  for (const model::Part::Cut& each : of().cuts) all = all | each.over;
  return all;
}

StateTensor state_of_part(const model::Parameter& parameter, size_t part, const std::string& kind, const Tensor& shaped_as_box) {
  const model::Part& of = parameter.parts[part];
  const layout::LogicalTensor& tensor = of.spec.tensor;
  return {tensor.name, kind, tensor.global_shape, of.own, of.first_copy, shaped_as_box};
}

StateTensor state_along(const Shard& shard, size_t dimension, const std::string& kind, const Tensor& vector) {
  StateTensor state = state_of_part(*shard.parameter, shard.part, kind, vector);
  state.global_shape = {state.global_shape[dimension]};
  state.held = {{state.held.offset[dimension]}, {state.held.length[dimension]}};
  for (size_t other = 0; other < shard.global_shape().size(); ++other) {
    if (other != dimension) state.first_copy = state.first_copy && shard.first_along(other);
  }
  return state;
}

Partials::Place Partials::reserve(layout::AxisSet over, int64_t count) {
  auto group = std::ranges::find(groups_, over, &Group::over);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), {.over = over});
  const Place place{static_cast<size_t>(group - groups_.begin()), group->count, count};
  group->count += count;
  return place;
}

void Partials::clear(at::Device device) {
  for (Group& group : groups_) group.sums = at::zeros({group.count}, at::TensorOptions().device(device).dtype(at::kDouble));
}

Tensor Partials::operator[](const Place& place) const { return groups_[place.group].sums.narrow(0, place.begin, place.count); }

void Partials::reduce(const Reducer& reduce) const {
  for (const Group& group : groups_) {
    if (reduce && !group.over.empty()) reduce(group.over, group.sums);
  }
}

}  // namespace longhaul::optim
