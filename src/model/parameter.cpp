#include "model/parameter.h"

#include <algorithm>

#include "base/error.h"
#include "base/memory_purpose.h"
#include "kernels/by_device.h"
#include "tensor/random_fill.h"

namespace longhaul::model {

Tensor Parameter::part_of(const Tensor& storage, size_t i) const {
  const Part& part = parts[i];
  Tensor view = storage;
  for (size_t d = 0; d < part.slice.length.size(); ++d) {
    view = view.narrow(static_cast<int64_t>(d), part.slice.offset[d], part.slice.length[d]);
  }
  return view.view(part.held.length);
}

void Parameter::freeze() {
  grad = Tensor();
  value.requires_grad_(false);
}

Tensor Parameter::use() { return kernels::with_gradient_to(value, grad); }

ParameterSet::ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device, Use use)
    : specs_(std::move(specs)), precision_(precision), device_(device), use_(use) {
  places_.reserve(specs_.size());
  for (size_t i = 0; i < specs_.size(); ++i) {
    const bool fresh = places_.emplace(specs_[i].tensor.name, Place{.spec = i}).second;
    LONGHAUL_ASSERT(fresh, "two parameters are called {}", specs_[i].tensor.name);
  }
}

const layout::ParameterSpec& ParameterSet::take(const std::string& name) {
  const auto found = places_.find(name);
  LONGHAUL_ASSERT(found != places_.end(), "no parameter is called {}", name);
  LONGHAUL_ASSERT(!found->second.taken, "parameter {} is built twice", name);
  found->second.taken = true;
  return specs_[found->second.spec];
}

Parameter& ParameterSet::store(std::string name, std::vector<Part> parts, at::IntArrayRef sizes) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = std::move(name);
  parameter->parts = std::move(parts);
  const auto options = at::TensorOptions().device(device_);
  const bool trains = use_ == Use::kTraining && std::ranges::any_of(parameter->parts, [](const Part& part) { return part.spec.trainable; });
  const MemoryPurposeScope of_value(MemoryPurpose::kParameters);
  parameter->value = at::zeros(sizes, options.dtype(layout::kept_wide(parameter->parts[0].spec) ? precision_.reduce : precision_.compute))
                         .requires_grad_(trains);
  if (trains) {
    const MemoryPurposeScope of_gradient(MemoryPurpose::kGradients);
    parameter->grad = at::zeros(sizes, options.dtype(precision_.main_gradient));
  }
  for (size_t part = 0; part < parameter->parts.size(); ++part) {
    Place& place = places_.at(parameter->parts[part].spec.tensor.name);
    place.holder = parameter.get();
    place.part = part;
  }
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

Parameter& ParameterSet::add_stacked(const std::string& storage_name, const std::vector<std::string>& names) {
  std::vector<Part> parts;
  std::vector<int64_t> sizes;
  for (const std::string& name : names) {
    const auto& spec = take(name);
    layout::Rectangle slice = layout::Rectangle::whole(spec.tensor.global_shape);
    if (sizes.empty()) {
      sizes = spec.tensor.global_shape;
    } else {
      slice.offset[0] = sizes[0];
      sizes[0] += spec.tensor.global_shape[0];
    }
    parts.push_back({spec, layout::Rectangle::whole(spec.tensor.global_shape), slice});
  }
  return store(storage_name, std::move(parts), sizes);
}

Parameter& ParameterSet::add_experts(const std::string& storage_name, const std::vector<std::vector<std::string>>& names) {
  std::vector<Part> parts;
  int64_t rows = 0, columns = 0;
  for (size_t e = 0; e < names.size(); ++e) {
    rows = 0;
    for (const std::string& name : names[e]) {
      const auto& spec = take(name);
      const auto& shape = spec.tensor.global_shape;
      parts.push_back({spec, layout::Rectangle::whole(shape), {{static_cast<int64_t>(e), rows, 0}, {1, shape[0], shape[1]}}});
      rows += shape[0];
      columns = shape[1];
    }
  }
  return store(storage_name, std::move(parts), {static_cast<int64_t>(names.size()), rows, columns});
}

void ParameterSet::expect_all_taken() const {
  for (const layout::ParameterSpec& spec : specs_) {
    LONGHAUL_ASSERT(places_.at(spec.tensor.name).taken, "no module holds parameter {}", spec.tensor.name);
  }
}

void ParameterSet::initialise(uint64_t seed) {
  for (const auto& parameter : parameters_) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& spec = parameter->parts[i].spec;
      Tensor view = parameter->part_of(parameter->value.detach(), i);
      switch (spec.init.kind) {
        case layout::Init::Kind::kOnes:
          view.fill_(1);
          break;
        case layout::Init::Kind::kZeros:
          view.zero_();
          break;
        case layout::Init::Kind::kNormal:
          fill_normal(view, RandomStream(seed, "init/" + spec.tensor.name), spec.init.std, spec.tensor.global_shape,
                      parameter->parts[i].held);
          break;
      }
    }
    parameter->written();
  }
}

void ParameterSet::zero_gradients() {
  for (const auto& parameter : parameters_) {
    if (parameter->trainable()) parameter->grad.zero_();
  }
}

Parameter* ParameterSet::holder_of(const std::string& logical_name, size_t* part) const {
  const auto found = places_.find(logical_name);
  if (found == places_.end() || found->second.holder == nullptr) return nullptr;
  if (part != nullptr) *part = found->second.part;
  return found->second.holder;
}

}  // namespace longhaul::model
