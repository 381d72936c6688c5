#include "recipe/optimizers/optimizers.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::recipe {
namespace {

using Shape = std::vector<int64_t>;

int64_t elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

StateElements two_moments(const OptimOptions&, const Shape& shape) {
  return {elements(shape), elements(shape)};
}
StateElements one_momentum(const OptimOptions&, const Shape& shape) { return {elements(shape)}; }
StateElements momentum_if_wanted(const OptimOptions& options, const Shape& shape) {
  return {momentum_of(options) > 0 ? elements(shape) : 0};
}

// For the second moment: means or maxima of rows and columns; for a vector all elements.
StateElements with_factors(StateElements state, const Shape& shape, int64_t times) {
  if (shape.size() == 2)
    state.factors = times * (shape[0] + shape[1]);
  else
    state.second = elements(shape);
  return state;
}
StateElements came(const OptimOptions& options, const Shape& shape) {
  return with_factors(one_momentum(options, shape), shape, 2);
}
StateElements factored(const OptimOptions& options, const Shape& shape) {
  return with_factors(momentum_if_wanted(options, shape), shape, 1);
}

constexpr std::string_view kAdamwReads[] = {"beta1", "beta2", "eps"};
constexpr std::string_view kLambReads[] = {"beta1", "beta2", "eps", "nvlamb", "lamb_decay"};
constexpr std::string_view kCameReads[] = {"beta1",       "beta2",      "beta3",       "correct_residuals",
                                           "update_clip", "square_eps", "residual_eps"};
constexpr std::string_view kAdafactorReads[] = {"momentum",      "adafactor_form", "scale_by_weights",
                                                "relative_step", "update_clip",    "square_eps"};
constexpr std::string_view kLionReads[] = {"beta1", "beta2", "sign_fade"};
constexpr std::string_view kSm3Reads[] = {"momentum", "square_eps"};
constexpr std::string_view kMuonReads[] = {"momentum", "nesterov", "muon_scale", "muon_iterations",
                                           "beta1",    "beta2",    "eps"};  // adamw beside it
constexpr std::string_view kSgdReads[] = {"momentum", "nesterov"};

constexpr OptimizerEntry kOptimizers[] = {
    {"adamw", "two moments of every element (the safe choice)", two_moments, 0, true, kAdamwReads},
    {"lamb", "the same, with steps in proportion to the weights of each tensor (large batches)", two_moments,
     0, false, kLambReads},
    {"came",
     "one momentum of every element and second moments of rows and columns (half the memory; try 0.7 of "
     "adamw's lr)",
     came, 0, false, kCameReads},
    {"adafactor", "second moments of rows and columns, and a momentum if asked for (least memory)", factored,
     0, false, kAdafactorReads},
    {"lion",
     "one momentum, and steps by its sign (beta2 0.99; try 0.2 of adamw's lr and 5 times its weight decay)",
     one_momentum, 0, true, kLionReads},
    {"sm3", "the largest second moments of rows and columns, and a momentum (sparse gradients)", factored,
     0.9, false, kSm3Reads},
    {"muon",
     "one momentum of matrices of layers, whose updates are made orthogonal; the rest has adamw (adamw's lr "
     "and weight decay)",
     one_momentum, 0.95, false, kMuonReads},
    {"sgd", "one momentum", momentum_if_wanted, 0.9, true, kSgdReads},
};

}  // namespace

std::span<const OptimizerEntry> optimizers() { return kOptimizers; }

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const auto found = std::ranges::find(kOptimizers, name, &OptimizerEntry::name);
  LONGHAUL_ASSERT(found != std::end(kOptimizers), "no optimizer is called {}", name);
  return *found;
}

WidthRule width_rule_of(const OptimOptions& options) {
  const std::string& name = options.name;
  if (name == "adamw" || name == "lion" || name == "came") return WidthRule::kElements;
  if (name == "sgd") return WidthRule::kGradient;
  if (name == "muon")
    return options.muon_scale == MuonScale::kMatchRms ? WidthRule::kRootOfElements : WidthRule::kSpectral;
  if (name == "adafactor" && !options.scale_by_weights && !options.relative_step) return WidthRule::kElements;
  return WidthRule::kUnknown;
}

double momentum_of(const OptimOptions& options) {
  return options.momentum >= 0 ? options.momentum : optimizer_entry(options.name).momentum;
}

}  // namespace longhaul::recipe
