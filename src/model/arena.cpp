#include "model/arena.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "tensor/memory_of.h"

namespace longhaul::model {
namespace {

int64_t padded(const Parameter& parameter) {
  return (layout::volume(parameter.sizes) + kArenaStep - 1) / kArenaStep * kArenaStep;
}

// Tensors of these shapes in one flat tensor. Each counts its changes for itself (variable_data): autograd
// must not take a change of one for a change of its neighbours.
struct Flat {
  Tensor all;
  std::vector<Tensor> parts;
};

Flat flat(const std::vector<Parameter*>& parameters, at::TensorOptions options) {
  int64_t elements = 0, begin = 0;
  for (const Parameter* parameter : parameters) elements += padded(*parameter);
  Flat result{at::zeros({elements}, options), {}};
  for (const Parameter* parameter : parameters) {
    result.parts.push_back(
        result.all.narrow(0, begin, layout::volume(parameter->sizes)).view(parameter->sizes).variable_data());
    begin += padded(*parameter);
  }
  return result;
}

layout::Range lengths_before(const std::vector<int64_t>& shares, int64_t index) {
  layout::Range range;
  for (int64_t i = 0; i < index; ++i) range.begin += shares[static_cast<size_t>(i)];
  range.length = shares[static_cast<size_t>(index)];
  return range;
}

// Everything of the arena that training sees as rows, in the order of memory.
std::vector<layout::RowsInArena> rows_of(const Arena& arena) {
  std::vector<layout::RowsInArena> rows;
  int64_t begin = 0;
  for (Parameter* parameter : arena.parameters) {
    parameter->own = {0, layout::volume(parameter->sizes)};
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const layout::Shape& held = parameter->parts[i].held.length;
      const int64_t row = held[0] == 0 ? 1 : layout::volume(held) / held[0];
      rows.push_back(
          {begin + parameter->own_run_of(i).begin, std::max<int64_t>(row, 1), row == 0 ? 0 : held[0]});
    }
    begin += padded(*parameter);
  }
  return rows;
}

// Of each parameter and its parts, what lies in the share of the arena.
void deal_out(Arena& arena, const layout::Range& share, const layout::MeshRank& place) {
  int64_t begin = 0;
  for (Parameter* parameter : arena.parameters) {
    std::vector<layout::Range> whole;
    for (size_t i = 0; i < parameter->parts.size(); ++i) whole.push_back(parameter->own_run_of(i));
    const int64_t elements = layout::volume(parameter->sizes);
    const int64_t first = std::clamp<int64_t>(share.begin - begin, 0, elements);
    parameter->own = {first, std::clamp<int64_t>(share.end() - begin, 0, elements) - first};
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      Part& part = parameter->parts[i];
      part.own = part.held;
      if (!arena.cut()) continue;
      const int64_t row =
          part.held.length[0] == 0 ? 1 : std::max<int64_t>(1, part.held.volume() / part.held.length[0]);
      const layout::Range run = parameter->own_run_of(i);
      const int64_t before = std::clamp<int64_t>(parameter->own.begin - whole[i].begin, 0, whole[i].length);
      LONGHAUL_ASSERT(run.length % row == 0 && before % row == 0, "{} is cut inside a row",
                      part.spec.tensor.name);
      part.own.offset[0] += before / row;
      part.own.length[0] = run.length / row;
      part.first_copy = place.coordinate(layout::Axis::kPp) == part.spec.pipeline_ranks.front() &&
                        place.mesh.index_in_group(place.rank, arena.share_copies) == 0;
      for (const layout::Axis axis : arena.sharers.axes()) {
        if (place.mesh.size(axis) == 1) continue;
        part.cuts[0].over = part.cuts[0].over | layout::AxisSet{axis};
        part.cuts[0].first = part.cuts[0].first && place.coordinate(axis) == 0;
      }
      part.cuts[0].over =
          // rows of heads, over all tensor ranks: sums go together with others' over these
          layout::joined(part.cuts[0].over);
    }
    begin += padded(*parameter);
  }
}

// The shares in an arena of fewer parameters: those that train.
std::vector<int64_t> shares_of_training(const Arena& arena) {
  std::vector<int64_t> shares;
  int64_t share_begin = 0;
  for (const int64_t length : arena.value_shares) {
    int64_t begin = 0, own = 0;
    for (const Parameter* parameter : arena.parameters) {
      const int64_t end = begin + padded(*parameter);
      if (!parameter->frozen)
        own += std::max<int64_t>(0, std::min(end, share_begin + length) - std::max(begin, share_begin));
      begin = end;
    }
    shares.push_back(own);
    share_begin += length;
  }
  return shares;
}

// Views of `own`, flat, for what each parameter has in it.
template <class Set>
void hand_out(const std::vector<Parameter*>& parameters, const layout::Range& share, const Tensor& own,
              const Set& set) {
  int64_t begin = 0;
  for (Parameter* parameter : parameters) {
    const int64_t first = std::clamp<int64_t>(begin + parameter->own.begin - share.begin, 0, own.numel());
    set(*parameter, own.narrow(0, parameter->own.length == 0 ? 0 : first, parameter->own.length));
    begin += padded(*parameter);
  }
}

}  // namespace

bool Arena::frozen() const {
  return std::ranges::all_of(parameters, [](const Parameter* parameter) {
    return std::ranges::all_of(parameter->parts, [](const Part& part) { return part.spec.frozen; });
  });
}

void Arena::take_gradients() const {
  if (!trains() || has_memory(gradients)) return;
  const MemoryPurposeScope scope(MemoryPurpose::kGradients);
  take_memory(gradients);
  gradients.zero_();
}

void Arena::forget_gradients() const {
  if (!trains()) return;
  if (gradients_come)
    release_memory(gradients);
  else
    gradients.zero_();
}

void Arena::zero_others() const {
  if (!cut() || !trains() || gradients_come) return;
  const int64_t begin = own_gradients.storage_offset() - gradients.storage_offset(),
                end = begin + own_gradients.numel();
  gradients.narrow(0, 0, begin).zero_();
  gradients.narrow(0, end, gradients.numel() - end).zero_();
}

void Arena::take_values() const {
  const MemoryPurposeScope scope(MemoryPurpose::kParameters);
  take_memory(values);
}

void Arena::forget_values() const {
  if (!values_come) return;
  release_memory(values);
  for (Parameter* parameter : parameters) parameter->packed.release();
}

Arena& ParameterSet::arena_of(Parameter& parameter) {
  // An expert rank without an expert of this layer holds nothing here.
  const layout::ParameterSpec spec =
      parameter.parts.empty() ? layout::ParameterSpec{} : parameter.parts[0].spec;
  const std::string where = spec.layer < 0 ? "outside the layers" : fmt::format("layers.{}", spec.layer);
  std::string stages;  // those that share it must have the same arena, and cut it in the same places
  for (const int64_t rank : spec.pipeline_ranks)
    stages += fmt::format("{}{}", stages.empty() ? " and stages " : "-", rank);
  const std::string of_set = spec.set.empty() ? "" : spec.set + ".";
  const std::string name =
      of_set +
      fmt::format("{} over {}{}{}", where, parameter.gradient_partial_over.text(),
                  spec.pipeline_ranks.size() > 1 ? stages : "", layout::kept_wide(spec) ? ", wide" : "") +
      // apart, so that what trains is cut into even shares
      (spec.frozen ? ", frozen" : "");
  const auto found = std::ranges::find_if(arenas_, [&](const auto& arena) { return arena->name == name; });
  if (found != arenas_.end()) return **found;
  return *arenas_.emplace_back(std::make_unique<Arena>(Arena{.name = name, .layer = spec.layer}));
}

void ParameterSet::allocate() {
  for (const layout::ParameterSpec& spec : specs_) {
    LONGHAUL_ASSERT(places_.at(spec.tensor.name).taken, "no module holds parameter {}", spec.tensor.name);
  }
  for (const auto& parameter : parameters_) {
    if (parameter->narrow()) continue;  // has memory of its own
    Arena& arena = arena_of(*parameter);
    arena.parameters.push_back(parameter.get());
    parameter->flow.phase = &progress_->phase;
    parameter->flow.on_ready = [progress = progress_.get(), &arena] {
      if (--arena.awaited == 0 && progress->ready) progress->ready(arena);
    };
  }
  for (const auto& arena : arenas_) allocate_values(*arena);
  allocate_gradients();
}

void ParameterSet::allocate_values(Arena& arena) {
  const MemoryPurposeScope scope(MemoryPurpose::kParameters);
  // several stages make them in another order
  std::ranges::stable_sort(arena.parameters, {}, [](const Parameter* parameter) {
    return !parameter->parts.empty() && parameter->parts[0].spec.pipeline_ranks.size() > 1 ? parameter->name
                                                                                           : std::string();
  });
  const Parameter& any = *arena.parameters[0];
  const bool wide = !any.parts.empty() && layout::kept_wide(any.parts[0].spec);
  Flat memory = flat(arena.parameters, wide ? wide_options() : wide_options().dtype(precision_.compute));
  arena.values = memory.all;
  for (size_t i = 0; i < arena.parameters.size(); ++i) arena.parameters[i]->value = memory.parts[i];

  arena.sharers = place_.mesh.shared_over(arena.copies());
  arena.share_copies = place_.mesh.shares_copied_over(arena.copies());
  const int64_t ranks = place_.zero > 0 ? place_.mesh.size(arena.sharers) : 1;
  arena.value_shares.clear();
  for (const layout::Range& share : layout::shares_of(rows_of(arena), arena.values.numel(), ranks))
    arena.value_shares.push_back(share.length);
  const layout::Range share = lengths_before(
      arena.value_shares, arena.cut() ? place_.mesh.index_in_group(place_.rank, arena.sharers) : 0);
  deal_out(arena, share, place_);
  arena.values_come = arena.cut() && place_.zero >= 3;
  arena.own_values = arena.values_come ? at::zeros({share.length}, arena.values.options())
                                       : arena.values.narrow(0, share.begin, share.length);
  hand_out(arena.parameters, share, arena.own_values,
           [](Parameter& parameter, const Tensor& own) { parameter.own_value = own; });
  arena.forget_values();
}

void ParameterSet::allocate_gradients() {
  const MemoryPurposeScope scope(MemoryPurpose::kGradients);
  for (const auto& arena : arenas_) {
    std::vector<Parameter*> training;
    for (Parameter* parameter : arena->parameters) {
      parameter->grad = parameter->own_grad = Tensor();
      parameter->value.requires_grad_(!parameter->frozen);
      if (!parameter->frozen) training.push_back(parameter);
    }
    arena->gradients = arena->own_gradients = Tensor();  // before the new memory is made
    arena->gradients_come = false;
    if (training.empty()) continue;
    Flat memory = flat(training, at::TensorOptions().device(device_).dtype(precision_.main_gradient));
    arena->gradients = memory.all;
    for (size_t i = 0; i < training.size(); ++i) training[i]->grad = memory.parts[i];

    arena->gradient_shares = shares_of_training(*arena);
    const layout::Range share = lengths_before(
        arena->gradient_shares, arena->cut() ? place_.mesh.index_in_group(place_.rank, arena->sharers) : 0);
    arena->gradients_come = arena->cut() && arena->layer >= 0 && place_.gradients_leave();
    arena->own_gradients = arena->gradients_come ? at::zeros({share.length}, arena->gradients.options())
                                                 : arena->gradients.narrow(0, share.begin, share.length);
    hand_out(training, share, arena->own_gradients,
             [](Parameter& parameter, const Tensor& own) { parameter.own_grad = own; });
    if (arena->gradients_come) release_memory(arena->gradients);
  }
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

void ParameterSet::zero_gradients() {
  for (const auto& arena : arenas_) {
    if (!arena->trains()) continue;
    arena->forget_gradients();
    arena->own_gradients.zero_();
  }
}

}  // namespace longhaul::model
