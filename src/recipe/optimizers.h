// Optimizers: what can be said of one without a tensor. The entries are listed once, in optimizers.cpp; the option optim.name, the memory plan
// and the reference page read them, and optim/optimizer.cpp has the other list, which makes them. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "recipe/optim_options.h"

namespace longhaul::recipe {

struct OptimizerEntry {
  std::string_view name;   // optim.name
  std::string_view keeps;  // of every tensor, for the option's sentence
  // Elements of state beside the master weight, of a logical tensor of this shape.
  int64_t (*state_elements)(const OptimOptions& options, const std::vector<int64_t>& global_shape);
  double momentum;   // as published: what optim.momentum = -1 means
  bool of_elements;  // an element's step is made of that element alone, so that no cut of a tensor changes a bit of it
};

std::span<const OptimizerEntry> optimizers();
const OptimizerEntry& optimizer_entry(std::string_view name);  // a name of the list
double momentum_of(const OptimOptions& options);

}  // namespace longhaul::recipe
