#include "model/parameter.h"

#include <fmt/format.h>

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

Tensor Parameter::use() { return kernels::with_gradient_to(value, sink()); }

namespace {

// Tensors of these shapes in one flat tensor. Each counts its changes for itself (variable_data): autograd must not take a change of one for
// a change of its neighbours.
struct Flat {
  Tensor all;
  std::vector<Tensor> parts;
};

Flat flat(const std::vector<const std::vector<int64_t>*>& shapes, at::TensorOptions options) {
  std::vector<int64_t> begins;
  int64_t elements = 0;
  for (const auto* shape : shapes) {
    begins.push_back(elements);
    elements += (layout::volume(*shape) + kArenaStep - 1) / kArenaStep * kArenaStep;
  }
  Flat result{at::zeros({elements}, options), {}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    result.parts.push_back(result.all.narrow(0, begins[i], layout::volume(*shapes[i])).view(*shapes[i]).variable_data());
  }
  return result;
}

}  // namespace

ParameterSet::ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device, Use use,
                           layout::MeshRank place)
    : specs_(std::move(specs)), precision_(precision), device_(device), use_(use), place_(std::move(place)) {
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

Part ParameterSet::part_of(const layout::ParameterSpec& spec, Parameter& holder) const {
  const layout::Placement placement = layout::placement_of(spec, place_.mesh, place_.coordinate(layout::Axis::kPp));
  const layout::AxisSet copies = layout::copied_over(placement);
  LONGHAUL_ASSERT(holder.parts.empty() || holder.gradient_partial_over == copies, "{} lies beside tensors that are cut over other axes",
                  spec.tensor.name);
  holder.gradient_partial_over = copies;
  std::vector<Part::Cut> cuts(spec.tensor.global_shape.size());
  for (size_t d = 0; d < cuts.size(); ++d) {
    for (const layout::Cut& cut : placement.dimensions[d]) {
      if (place_.mesh.size(cut.axis) == 1) continue;
      cuts[d].over = cuts[d].over | layout::AxisSet{cut.axis};
      cuts[d].first = cuts[d].first && place_.coordinate(cut.axis) == 0;
    }
  }
  return {.spec = spec,
          .held = layout::rectangle_of(placement, place_.mesh, place_.rank, spec.tensor.global_shape),
          .first_copy = place_.coordinate(layout::Axis::kPp) == spec.pipeline_ranks.front() &&
                        layout::is_first_copy(placement, place_.mesh, place_.rank),
          .cuts = std::move(cuts)};
}

Parameter& ParameterSet::store(std::unique_ptr<Parameter> parameter) {
  LONGHAUL_ASSERT(arenas_.empty(), "{} comes after the memory was made", parameter->name);
  parameter->frozen =
      use_ == Use::kInference || std::ranges::none_of(parameter->parts, [](const Part& part) { return part.spec.trainable; });
  for (size_t part = 0; part < parameter->parts.size(); ++part) {
    Place& place = places_.at(parameter->parts[part].spec.tensor.name);
    place.holder = parameter.get();
    place.part = part;
  }
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

Arena& ParameterSet::arena_of(Parameter& parameter) {
  // An expert rank without an expert of this layer holds nothing here.
  const layout::ParameterSpec spec = parameter.parts.empty() ? layout::ParameterSpec{} : parameter.parts[0].spec;
  const std::string where = spec.layer < 0 ? "outside the layers" : fmt::format("layers.{}", spec.layer);
  const std::string name = fmt::format("{} over {}{}{}", where, parameter.gradient_partial_over.text(),
                                       spec.pipeline_ranks.size() > 1 ? " and stages" : "", layout::kept_wide(spec) ? ", wide" : "");
  const auto found = std::ranges::find_if(arenas_, [&](const auto& arena) { return arena->name == name; });
  if (found != arenas_.end()) return **found;
  return *arenas_.emplace_back(std::make_unique<Arena>(Arena{.name = name}));
}

void ParameterSet::allocate() {
  for (const layout::ParameterSpec& spec : specs_) {
    LONGHAUL_ASSERT(places_.at(spec.tensor.name).taken, "no module holds parameter {}", spec.tensor.name);
  }
  for (const auto& parameter : parameters_) {
    Arena& arena = arena_of(*parameter);
    arena.parameters.push_back(parameter.get());
    parameter->flow.phase = &progress_->phase;
    parameter->flow.on_ready = [progress = progress_.get(), &arena] {
      if (--arena.awaited == 0 && progress->ready) progress->ready(arena);
    };
  }
  const MemoryPurposeScope scope(MemoryPurpose::kParameters);
  for (const auto& arena : arenas_) {
    std::vector<const std::vector<int64_t>*> shapes;
    for (const Parameter* parameter : arena->parameters) shapes.push_back(&parameter->sizes);
    const bool wide = !arena->parameters[0]->parts.empty() && layout::kept_wide(arena->parameters[0]->parts[0].spec);
    Flat memory = flat(shapes, wide ? wide_options() : wide_options().dtype(precision_.compute));
    arena->values = memory.all;
    for (size_t i = 0; i < shapes.size(); ++i) arena->parameters[i]->value = memory.parts[i];
  }
  allocate_gradients();
}

void ParameterSet::allocate_gradients() {
  const MemoryPurposeScope scope(MemoryPurpose::kGradients);
  for (const auto& arena : arenas_) {
    std::vector<const std::vector<int64_t>*> shapes;
    std::vector<Parameter*> training;
    for (Parameter* parameter : arena->parameters) {
      parameter->grad = Tensor();
      parameter->value.requires_grad_(!parameter->frozen);
      if (parameter->frozen) continue;
      training.push_back(parameter);
      shapes.push_back(&parameter->sizes);
    }
    arena->gradients = Tensor();  // before the new memory is made
    if (training.empty()) continue;
    Flat memory = flat(shapes, at::TensorOptions().device(device_).dtype(precision_.main_gradient));
    arena->gradients = memory.all;
    for (size_t i = 0; i < training.size(); ++i) training[i]->grad = memory.parts[i];
  }
}

void ParameterSet::freeze(const std::function<bool(const Parameter&)>& which) {
  for (const auto& parameter : parameters_) parameter->frozen = parameter->frozen || which(*parameter);
  allocate_gradients();
}

void ParameterSet::begin_step(std::function<void(Arena&)> ready) {
  progress_->ready = std::move(ready);
  progress_->phase.all_announced = false;
  for (const auto& arena : arenas_) {
    arena->awaited = 0;
    for (Parameter* parameter : arena->parameters) {
      parameter->flow.begin_step();
      arena->awaited += parameter->trainable();
    }
  }
}

Parameter& ParameterSet::add_stacked(const std::string& storage_name, const std::vector<std::string>& names) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = storage_name;
  std::vector<int64_t>& sizes = parameter->sizes;
  for (const std::string& name : names) {
    Part part = part_of(take(name), *parameter);
    const std::vector<int64_t>& held = part.held.length;
    part.slice = layout::Rectangle::whole(held);
    if (sizes.empty()) {
      sizes = held;
    } else {
      part.slice.offset[0] = sizes[0];
      sizes[0] += held[0];
    }
    parameter->parts.push_back(std::move(part));
  }
  return store(std::move(parameter));
}

Parameter& ParameterSet::add_experts(const std::string& storage_name, const std::vector<std::vector<std::string>>& names) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = storage_name;
  int64_t experts = 0, rows = 0, columns = 0;
  for (const std::vector<std::string>& of_expert : names) {
    int64_t row = 0;
    for (const std::string& name : of_expert) {
      const layout::ParameterSpec& spec = take(name);
      // Of another expert rank: its box is empty, whatever its own axes are.
      const int64_t ranks = place_.mesh.size(layout::Axis::kEp);
      if (ranks > 1 && layout::even_owner(spec.split.experts, ranks, spec.expert) != place_.coordinate(layout::Axis::kEp)) continue;
      Part part = part_of(spec, *parameter);
      const std::vector<int64_t>& held = part.held.length;
      part.slice = {{experts, row, 0}, {1, held[0], held[1]}};
      row += held[0];
      columns = held[1];
      parameter->parts.push_back(std::move(part));
    }
    if (row > 0) ++experts, rows = row;
  }
  parameter->sizes = {experts, rows, columns};
  return store(std::move(parameter));
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
  for (const auto& arena : arenas_) {
    if (arena->gradients.defined()) arena->gradients.zero_();
  }
}

Parameter* ParameterSet::holder_of(const std::string& logical_name, size_t* part) const {
  const auto found = places_.find(logical_name);
  if (found == places_.end() || found->second.holder == nullptr) return nullptr;
  if (part != nullptr) *part = found->second.part;
  return found->second.holder;
}

}  // namespace longhaul::model
