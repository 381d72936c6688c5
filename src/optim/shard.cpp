#include "optim/shard.h"

#include <algorithm>

namespace longhaul::optim {

layout::AxisSet Shard::cut() const {
  layout::AxisSet all;
  for (const model::Part::Cut& each : of().cuts) all = all | each.over;
  return all;
}

StateTensor state_of_part(const model::Parameter& parameter, size_t part, const std::string& kind,
                          const Tensor& shaped_as_box) {
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
  for (Group& group : groups_)
    group.numbers = at::zeros({group.count}, at::TensorOptions().device(device).dtype(dtype_));
}

void Partials::release() {
  for (Group& group : groups_) group.numbers = Tensor();
}

Tensor Partials::operator[](const Place& place) const {
  return groups_[place.group].numbers.narrow(0, place.begin, place.count);
}

double* Partials::numbers(const Place& place) const {
  return groups_[place.group].numbers.mutable_data_ptr<double>() + place.begin;
}

double Partials::number(const Place& place) const {
  return groups_[place.group].numbers.is_cpu() ? *numbers(place) : (*this)[place].item<double>();
}

void Partials::reduce(const std::vector<Partials*>& together, const Reducer& reduce) {
  struct Call {
    layout::AxisSet over;
    comm::Reduction how;
    ScalarType dtype;
    bool operator==(const Call&) const = default;
  };
  std::vector<std::pair<Call, std::vector<Tensor>>> calls;
  for (const Partials* partials : together) {
    for (const Group& group : partials->groups_) {
      if (group.over.empty()) continue;
      const Call call{group.over, partials->how_, partials->dtype_};
      auto found = std::ranges::find(calls, call, &std::pair<Call, std::vector<Tensor>>::first);
      if (found == calls.end()) found = calls.insert(calls.end(), {call, {}});
      found->second.push_back(group.numbers);
    }
  }
  for (const auto& [call, numbers] : calls) {
    if (numbers.size() == 1) {
      reduce(call.over, numbers[0], call.how);
      continue;
    }
    const Tensor all = at::cat(numbers);
    reduce(call.over, all, call.how);
    int64_t at = 0;
    for (const Tensor& each : numbers) each.copy_(all.narrow(0, at, each.numel())), at += each.numel();
  }
}

}  // namespace longhaul::optim
