// Optimizers: everything about one that needs no tensor. The entries are listed once, in optimizers.cpp. The
// option optim.name, the memory plan and the reference page read them; the list of the functions that make
// optimizers is in optim/optimizer.cpp. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "recipe/sections/optim_options.h"

namespace longhaul::recipe {

struct StateElements {
  int64_t first = 0, second = 0;  // for every element: momentum or first moment; second moment
  int64_t factors = 0;            // for rows and columns
  int64_t total() const { return first + second + factors; }
};

struct OptimizerEntry {
  std::string_view name;   // optim.name
  std::string_view keeps;  // what it stores for every tensor, for the option's sentence
  // State in addition to the master weight, for a logical tensor of this shape.
  StateElements (*state_elements)(const OptimOptions& options, const std::vector<int64_t>& global_shape);
  double momentum;  // as published: the meaning of optim.momentum = -1
  // The step of an element depends on that element only, so that no cut of a tensor changes any bit.
  bool of_elements;
  // Options of [optim] that it reads, in addition to the common ones: "beta1".
  std::span<const std::string_view> reads;
};

std::span<const OptimizerEntry> optimizers();
const OptimizerEntry& optimizer_entry(std::string_view name);  // `name` must be in the list
double momentum_of(const OptimOptions& options);

// How an optimizer's step changes as a matrix becomes wider; its muP factors follow from it (layout/width.h).
// kElements: every element moves by about the rate, whatever the gradient's size. kGradient: by the gradient
// times the rate. kSpectral: the update's spectral norm is the rate. kRootOfElements: it is the rate times
// the square root of the width.
enum class WidthRule { kUnknown, kElements, kGradient, kSpectral, kRootOfElements };
WidthRule width_rule_of(const OptimOptions& options);

}  // namespace longhaul::recipe
