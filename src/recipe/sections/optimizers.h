// Optimizers: what can be said of one without a tensor. The entries are listed once, in optimizers.cpp; the option optim.name, the memory plan
// and the reference page read them, and optim/optimizer.cpp has the other list, which makes them. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "recipe/sections/optim_options.h"

namespace longhaul::recipe {

struct StateElements {
  int64_t first = 0, second = 0;  // of every element: momentum or first moment; second moment
  int64_t factors = 0;            // of rows and columns
  int64_t total() const { return first + second + factors; }
};

struct OptimizerEntry {
  std::string_view name;   // optim.name
  std::string_view keeps;  // of every tensor, for the option's sentence
  // State beside the master weight, of a logical tensor of this shape.
  StateElements (*state_elements)(const OptimOptions& options, const std::vector<int64_t>& global_shape);
  double momentum;   // as published: what optim.momentum = -1 means
  bool of_elements;  // an element's step is made of that element alone, so that no cut of a tensor changes a bit of it
  std::span<const std::string_view> reads;  // of [optim], beside what all read: "beta1"
};

std::span<const OptimizerEntry> optimizers();
const OptimizerEntry& optimizer_entry(std::string_view name);  // a name of the list
double momentum_of(const OptimOptions& options);

// What its step does as a matrix becomes wider, from which its muP factors follow (layout/width.h). kElements: every element moves by about the rate,
// whatever the gradient's size. kGradient: by the gradient times the rate. kSpectral: the update's spectral norm is the rate; kRootOfElements: the
// rate times the square root of the width.
enum class WidthRule { kUnknown, kElements, kGradient, kSpectral, kRootOfElements };
WidthRule width_rule_of(const OptimOptions& options);

}  // namespace longhaul::recipe
