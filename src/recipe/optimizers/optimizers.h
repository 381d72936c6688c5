// The list of optimizers, and what follows from their entries. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "recipe/optimizers/entry.h"

namespace longhaul::recipe {

std::span<const OptimizerEntry* const> optimizers();
const OptimizerEntry* find_optimizer(std::string_view name);   // null: there is none
const OptimizerEntry& optimizer_entry(std::string_view name);  // `name` must be in the list

double momentum_of(const OptimOptions& options);
WidthRule width_rule_of(const OptimOptions& options);
std::optional<OptimizerRefusal> refusal_of(const OptimOptions& options);

// Whether it reads the option, or the optimizer beside it does. `option`: without "optim.".
bool reads(const OptimizerEntry& entry, std::string_view option);
// Those that read it themselves, in the order of the list.
std::vector<std::string_view> readers_of(const OptimizerOption& option);

// An option as a number: flags are 0 and 1, values of an enumeration 0, 1, … in its order.
double number_of(const OptimOptions& options, const OptimizerOption& option);
void set_number(OptimOptions& options, const OptimizerOption& option, double number);

// The states under these options, in the order of the entry.
std::vector<OptimizerState> states_of(const OptimOptions& options);
struct StateElements {
  int64_t first = 0, second = 0;  // for every element: momentum or first moment; second moment
  int64_t factors = 0;            // for rows and columns
  int64_t total() const { return first + second + factors; }
};
// Of a logical tensor of this shape.
StateElements state_elements(const OptimOptions& options, const std::vector<int64_t>& shape);

}  // namespace longhaul::recipe
