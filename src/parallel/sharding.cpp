#include "parallel/sharding.h"

#include "base/error.h"
#include "base/memory/memory_purpose.h"
#include "parallel/checked_sums.h"
#include "parallel/priorities.h"

namespace longhaul::parallel {

Sharding::Sharding(model::ParameterSet& parameters, Group values, Group gradients)
    : parameters_(parameters), values_(std::move(values)), gradients_(std::move(gradients)) {
  for (const auto& arena : parameters.arenas()) {
    if (!arena->cut()) continue;
    layers_[arena->layer].push_back({.arena = arena.get(), .whole = !arena->values_come});
    gathers_ = gathers_ || arena->values_come;
    reduces_ = reduces_ || arena->gradients_come;
    if (!arena->gradients_come) continue;
    for (model::Parameter* parameter : arena->parameters) {
      // The memory is in use while a sum of it goes on.
      parameter->flow.before_product = [this, whole = arena.get()] {
        unsummed_.insert(whole->layer);
        for (const Sum& sum : sums_) {
          if (sum.arena != whole) continue;
          finish_sum();
          break;
        }
        whole->take_gradients();
      };
    }
  }
}

// ---- values

void Sharding::start_gather(Held& held) {
  const model::Arena& arena = *held.arena;
  arena.take_values();
  const comm::CallOptions options{.name = "values of " + arena.name, .priority = kValuesOfLayersToCome};
  held.coming =
      values_(arena.sharers).all_gather(arena.own_values, arena.values, options, arena.value_shares);
  held.whole = held.on_its_way = true;
}

void Sharding::wait_for(Held& held) {
  if (!held.on_its_way) return;
  held.coming.wait();
  held.on_its_way = false;
}

void Sharding::share_values(bool by_step) {
  const at::NoGradGuard no_gradient;
  for (auto& [layer, arenas] : layers_) {
    for (Held& held : arenas) {
      wait_for(held);  // nobody has used it
      if (by_step && held.whole && held.arena->frozen()) continue;
      if (held.arena->values_come) {
        held.arena->forget_values();
        held.whole = false;
      } else {
        start_gather(held);
      }
    }
  }
  if (!gathers_) return;
  start_gathers(-1);
  const auto first = layers_.lower_bound(0);
  if (first != layers_.end()) start_gathers(first->first);
}

void Sharding::settle_values() {
  for (auto& [layer, arenas] : layers_) {
    for (Held& held : arenas) wait_for(held);
  }
}

void Sharding::gather_values() {
  for (const auto& [layer, arenas] : layers_) need(layer, layer);
}

void Sharding::start_gathers(int64_t layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return;
  for (Held& held : found->second) {
    if (!held.whole) start_gather(held);
  }
}

void Sharding::need(int64_t layer, int64_t next) {
  const at::NoGradGuard no_gradient;
  for (const int64_t each : {layer, next}) start_gathers(each);
  if (const auto found = layers_.find(layer); found != layers_.end()) {
    for (Held& held : found->second) wait_for(held);
  }
}

void Sharding::forget(int64_t layer) {
  const auto found = layers_.find(layer);
  if (!gathers_ || layer < 0 || found == layers_.end()) return;
  for (Held& held : found->second) {
    wait_for(held);
    held.arena->forget_values();
    held.whole = false;
  }
}

void Sharding::before_forward(int64_t layer) {
  need(-1, -1);  // any layer may use what layers share
  if (layer >= 0) need(layer, layer + 1);
}

void Sharding::after_forward(int64_t layer) { forget(layer); }

void Sharding::before_backward(int64_t layer) {
  need(layer, layer > 0 ? layer - 1 : layer);
  if (reduces_) open_.push_back(layer);
}

// ---- gradients

void Sharding::after_backward(int64_t layer) {
  forget(layer);
  if (!reduces_ || parameters_.postpones()) return;
  std::erase(open_, layer);
  start_sums(layer);
}

void Sharding::sum_layers(const std::vector<int64_t>& layers) {
  for (const int64_t layer : layers) {
    forget(layer);
    start_sums(layer);
  }
}

void Sharding::start_sums(int64_t layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return;
  unsummed_.erase(layer);
  const at::NoGradGuard no_gradient;
  finish_sum();
  for (const Held& held : found->second) {
    model::Arena& arena = *held.arena;
    if (!arena.gradients_come) continue;
    arena.take_gradients();  // where this rank has no product of it, zeros
    const MemoryPurposeScope scope(MemoryPurpose::kGradients);
    Sum& sum =
        sums_.emplace_back(Sum{.arena = &arena, .own = at::empty_like(arena.own_gradients), .work = {}});
    const comm::CallOptions options{.name = "gradients of " + arena.name, .priority = kSumsOfGradients};
    sum.work =
        started_sum(gradients_(arena.sharers), arena.gradients, sum.own, arena.gradient_shares, options);
  }
}

void Sharding::finish_sum() {
  const at::NoGradGuard no_gradient;
  finish_copies();
  for (Sum& sum : sums_) {
    sum.work.wait();
    sum.arena->forget_gradients();
    if (sum.arena->share_copies.empty()) {
      sum.arena->own_gradients.add_(sum.own);
      continue;
    }
    const comm::CallOptions options{.name = "shares of gradients of " + sum.arena->name,
                                    .priority = kSumsBetweenCopies};
    sum.work = started_sum(gradients_(sum.arena->share_copies), sum.own, sum.own, {}, options);
    copies_.push_back(std::move(sum));
  }
  sums_.clear();
}

void Sharding::finish_copies() {
  for (Sum& sum : copies_) {
    sum.work.wait();
    sum.arena->own_gradients.add_(sum.own);
  }
  copies_.clear();
}

void Sharding::end_step() {
  LONGHAUL_ASSERT(
      unsummed_.empty(),
      "the task does not mark where layer {} begins and ends (model/watched.h): its gradients are not summed",
      *unsummed_.begin());
  const at::NoGradGuard no_gradient;
  finish_sum();
  finish_copies();
}

}  // namespace longhaul::parallel
