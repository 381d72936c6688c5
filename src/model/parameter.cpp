#include "model/parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/by_device.h"
#include "layout/freezing.h"
#include "model/arena.h"
#include "model/served_adapters.h"
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

layout::Range Parameter::own_run_of(size_t i) const {
  const layout::Rectangle& slice = parts[i].slice;
  int64_t begin = 0;
  for (size_t d = 0; d < sizes.size(); ++d) begin = begin * sizes[d] + slice.offset[d];
  const int64_t first = std::max(begin, own.begin), end = std::min(begin + slice.volume(), own.end());
  return {std::clamp<int64_t>(first - own.begin, 0, own.length), std::max<int64_t>(0, end - first)};
}

Tensor Parameter::own_part_of(const Tensor& storage, size_t i) const {
  const layout::Range run = own_run_of(i);
  return storage.narrow(0, run.begin, run.length).view(parts[i].own.length);
}

void Parameter::write_narrow(size_t i, const Tensor& wide) {
  const layout::Rectangle& slice = parts[i].slice;
  if (slice.volume() == 0) return;
  const std::string& of = parts[i].spec.tensor.name;
  if (int8) return int8->write(slice.offset[0], slice.offset[1], wide, of);
  const bool of_expert = sizes.size() == 3;
  groups->write(of_expert ? slice.offset[0] : 0, slice.offset[of_expert ? 1 : 0], wide, of);
}

Tensor Parameter::use() {
  LONGHAUL_ASSERT(!narrow(), "{} is kept in eight bits", name);
  return kernels::with_gradient_to(value, sink());
}

Tensor Stacked::use() const {
  if (runs.size() == 1) return runs[0]->use();
  std::vector<Tensor> values;
  for (Parameter* const run : runs) values.push_back(run->use());
  return at::cat(values);
}

const Part& Stacked::part(size_t i) const {
  size_t run = 0;
  while (i >= runs[run]->parts.size()) i -= runs[run++]->parts.size();
  return runs[run]->parts[i];
}

ParameterSet::~ParameterSet() = default;
ParameterSet::ParameterSet(ParameterSet&&) noexcept = default;

ParameterSet::ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device,
                           Use use, layout::MeshRank place)
    : specs_(std::move(specs)),
      precision_(precision),
      device_(device),
      use_(use),
      place_(std::move(place)),
      served_(std::make_shared<ServedAdapters>()) {
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
  const layout::Placement placement =
      layout::placement_of(spec, place_.mesh, place_.coordinate(layout::Axis::kPp));
  const layout::AxisSet copies = layout::copied_over(placement);
  LONGHAUL_ASSERT(holder.parts.empty() || holder.gradient_partial_over == copies,
                  "{} lies beside tensors that are cut over other axes", spec.tensor.name);
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
  if (use_ == Use::kTraining) {
    std::vector<layout::ParameterSpec> of_product;
    for (const Part& part : parameter->parts) of_product.push_back(part.spec);
    layout::require_frozen_together(of_product);
  }
  parameter->frozen = use_ != Use::kTraining || std::ranges::none_of(parameter->parts, [](const Part& part) {
                        return part.spec.trainable;
                      });
  for (size_t part = 0; part < parameter->parts.size(); ++part) {
    Place& place = places_.at(parameter->parts[part].spec.tensor.name);
    place.holder = parameter.get();
    place.part = part;
  }
  parameters_.push_back(std::move(parameter));
  return *parameters_.back();
}

void ParameterSet::freeze(const std::function<bool(const Parameter&)>& which) {
  for (const auto& parameter : parameters_) parameter->frozen = parameter->frozen || which(*parameter);
  allocate_gradients();
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

Stacked ParameterSet::add_runs(const std::string& storage_name, const std::vector<std::string>& names) {
  const auto copies = [&](const std::string& name) {
    const auto found = places_.find(name);
    LONGHAUL_ASSERT(found != places_.end(), "no parameter is called {}", name);
    return layout::copied_over(
        layout::placement_of(specs_[found->second.spec], place_.mesh, place_.coordinate(layout::Axis::kPp)));
  };
  std::vector<std::vector<std::string>> runs;
  for (const std::string& name : names) {
    if (runs.empty() || copies(runs.back().front()) != copies(name)) runs.emplace_back();
    runs.back().push_back(name);
  }
  Stacked stacked;
  for (const auto& run : runs)
    stacked.runs.push_back(&add_stacked(runs.size() == 1 ? storage_name : run.front(), run));
  return stacked;
}

Parameter& ParameterSet::add_experts(const std::string& storage_name,
                                     const std::vector<std::vector<std::string>>& names) {
  auto parameter = std::make_unique<Parameter>();
  parameter->name = storage_name;
  int64_t experts = 0, rows = 0, columns = 0;
  for (const std::vector<std::string>& of_expert : names) {
    int64_t row = 0;
    for (const std::string& name : of_expert) {
      const layout::ParameterSpec& spec = take(name);
      // Of another expert rank: its box is empty, whatever its own axes are.
      const int64_t ranks = place_.mesh.size(layout::Axis::kEp);
      if (ranks > 1 &&
          layout::even_owner(spec.split.experts, ranks, spec.expert) != place_.coordinate(layout::Axis::kEp))
        continue;
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
  if (use_ == Use::kInt8Experts) parameter->int8.emplace(experts, rows, columns, device_);
  keep_in_groups(*parameter);
  return store(std::move(parameter));
}

namespace {

// What recipe::Fill names. Numbers drawn evenly from (0, 1) are normal ones by their distribution function.
void fill_coefficients(const Tensor& view, const layout::ParameterSpec& spec, const RandomStream& stream,
                       const layout::Rectangle& held) {
  if (held.volume() == 0 || view.is_meta()) return;
  const int64_t first = held.offset[0], count = held.length[0];
  if (spec.init.kind == layout::Init::Kind::kLogRows) {
    const Tensor numbers = at::arange(first + 1, first + count + 1, at::kDouble).log();
    Tensor(view).copy_(numbers.unsqueeze(1).expand(view.sizes()));
    return;
  }
  Tensor values;
  if (spec.init.kind == layout::Init::Kind::kTimescales) {
    const double all = static_cast<double>(std::max<int64_t>(1, spec.tensor.global_shape[0] - 1));
    values = at::arange(first, first + count, at::kDouble).mul(-std::log(128.0) / all).add(std::log(16.0));
  } else if (spec.init.kind == layout::Init::Kind::kFrequencies) {
    const Tensor m = at::arange(first, first + count, at::kDouble);
    values = at::pow(at::Scalar(10000.0), m.mul(-2.0 / static_cast<double>(spec.tensor.global_shape[0])));
  } else {
    values = at::empty({count}, at::kDouble);
    fill_normal(values, stream, 1, spec.tensor.global_shape, held);
    const Tensor even = at::special_ndtr(values);
    if (spec.init.kind == layout::Init::Kind::kLogRates) {
      values = even.mul(15).add(1).log();
    } else {
      const Tensor step = even.mul(std::log(100.0)).add(std::log(1e-3)).exp();
      values = step.add(step.neg().expm1().neg().log());  // softplus of it is the step
    }
  }
  Tensor(view).copy_(values);
}

// Numbers drawn evenly, as normal ones by their distribution function.
void fill_evenly(const Tensor& view, const RandomStream& stream, const layout::ParameterSpec& spec,
                 const layout::Rectangle& held) {
  if (held.volume() == 0 || view.is_meta()) return;
  const Tensor normal = at::empty(held.length, at::kDouble);
  fill_normal(normal, stream, 1, spec.tensor.global_shape, held);
  Tensor(view).copy_(at::special_ndtr(normal).mul(2).sub(1).mul(std::sqrt(3.0) * spec.init.std));
}

}  // namespace

void ParameterSet::initialise(uint64_t seed) {
  for (const auto& parameter : parameters_) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& spec = parameter->parts[i].spec;
      // What is cut over ranks has memory for the share only.
      const bool narrow = parameter->narrow();
      const bool whole = narrow || parameter->value.storage().nbytes() > 0 || parameter->value.numel() == 0;
      Tensor view = narrow  ? at::empty(parameter->parts[i].held.length, wide_options())
                    : whole ? parameter->part_of(parameter->value.detach(), i)
                            : parameter->own_part_of(parameter->own_value, i);
      switch (spec.init.kind) {
        case layout::Init::Kind::kOnes:
          view.fill_(1);
          break;
        case layout::Init::Kind::kZeros:
          view.zero_();
          break;
        case layout::Init::Kind::kMean:
          view.fill_(1 / static_cast<double>(spec.tensor.global_shape.back()));
          break;
        case layout::Init::Kind::kFrequencies:
        case layout::Init::Kind::kLogRates:
        case layout::Init::Kind::kSteps:
        case layout::Init::Kind::kLogRows:
        case layout::Init::Kind::kTimescales:
          fill_coefficients(
              view, spec,
              RandomStream(seed, "init/" + (spec.drawn_as.empty() ? spec.tensor.name : spec.drawn_as)),
              whole ? parameter->parts[i].held : parameter->parts[i].own);
          break;
        case layout::Init::Kind::kUniform:
          fill_evenly(
              view, RandomStream(seed, "init/" + (spec.drawn_as.empty() ? spec.tensor.name : spec.drawn_as)),
              spec, whole ? parameter->parts[i].held : parameter->parts[i].own);
          break;
        case layout::Init::Kind::kNormal:
          fill_normal(
              view, RandomStream(seed, "init/" + (spec.drawn_as.empty() ? spec.tensor.name : spec.drawn_as)),
              spec.init.std, spec.tensor.global_shape,
              whole ? parameter->parts[i].held : parameter->parts[i].own);
          break;
      }
      if (narrow) parameter->write_narrow(i, view);
    }
    parameter->written();
  }
}

void ParameterSet::keep_in_groups(Parameter& parameter) const {
  if (use_ != Use::kIntegers) return;
  const bool of_experts = parameter.sizes.size() == 3;
  parameter.groups.emplace(of_experts ? parameter.sizes[0] : 1, parameter.sizes[of_experts ? 1 : 0],
                           parameter.sizes[of_experts ? 2 : 1]);
}

Parameter* ParameterSet::holder_of(const std::string& logical_name, size_t* part) const {
  const auto found = places_.find(logical_name);
  if (found == places_.end() || found->second.holder == nullptr) return nullptr;
  if (part != nullptr) *part = found->second.part;
  return found->second.holder;
}

}  // namespace longhaul::model
