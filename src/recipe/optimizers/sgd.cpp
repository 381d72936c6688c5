#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr const OptimizerOption* kOptionsOfSgd[] = {&kMomentum, &kWeightDecay, &kNesterov};
constexpr OptimizerState kStatesOfSgd[] = {
    {"momentum", OptimizerState::Of::kFirstMoment, /*with_momentum=*/true}};

}  // namespace

extern const OptimizerEntry kSgd;
const OptimizerEntry kSgd = {.name = "sgd",
                             .keeps = "one momentum",
                             .options = kOptionsOfSgd,
                             .states = kStatesOfSgd,
                             .momentum = 0.9,
                             .of_elements = true,
                             .width_rule = [](const OptimOptions&) { return WidthRule::kGradient; }};

}  // namespace longhaul::recipe
