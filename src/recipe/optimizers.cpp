#include "recipe/optimizers.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::recipe {
namespace {

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

int64_t two_moments(const std::vector<int64_t>& shape) { return 2 * elements(shape); }

int64_t came(const std::vector<int64_t>& shape) {
  return shape.size() == 2 ? elements(shape) + 2 * (shape[0] + shape[1]) : 2 * elements(shape);
}

constexpr OptimizerEntry kOptimizers[] = {
    {"adamw", "two moments of every element (the safe choice)", two_moments},
    {"came", "one momentum of every element and second moments of rows and columns (half the memory; try 0.7 of adamw's lr)", came},
};

}  // namespace

std::span<const OptimizerEntry> optimizers() { return kOptimizers; }

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const auto found = std::ranges::find(kOptimizers, name, &OptimizerEntry::name);
  LONGHAUL_ASSERT(found != std::end(kOptimizers), "no optimizer is called {}", name);
  return *found;
}

}  // namespace longhaul::recipe
