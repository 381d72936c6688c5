#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr const OptimizerOption* kOptionsOfAdamw[] = {&kBeta1, &kBeta2, &kEps, &kWeightDecay};
constexpr OptimizerState kStatesOfAdamw[] = {{"m", OptimizerState::Of::kFirstMoment},
                                             {"v", OptimizerState::Of::kSecondMoment}};

}  // namespace

extern const OptimizerEntry kAdamw;
const OptimizerEntry kAdamw = {.name = "adamw",
                               .keeps = "two moments of every element (the safe choice)",
                               .options = kOptionsOfAdamw,
                               .states = kStatesOfAdamw,
                               .of_elements = true,
                               .width_rule = [](const OptimOptions&) { return WidthRule::kElements; }};

}  // namespace longhaul::recipe
