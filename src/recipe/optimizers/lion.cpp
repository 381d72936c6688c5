#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr OptimizerOption kSignFade = {
    .name = "sign_fade",
    .field = &OptimOptions::sign_fade,
    .help = "size below which a direction counts in proportion instead of by its sign.",
    .most = 1e6};
constexpr const OptimizerOption* kOptionsOfLion[] = {&kBeta1, &kBeta2, &kWeightDecay, &kSignFade};
constexpr OptimizerState kStatesOfLion[] = {{"momentum", OptimizerState::Of::kFirstMoment}};

}  // namespace

extern const OptimizerEntry kLion;
const OptimizerEntry kLion = {.name = "lion",
                              .keeps =
                                  "one momentum, and steps by its sign (beta2 0.99; try 0.2 of adamw's lr "
                                  "and 5 times its weight decay)",
                              .options = kOptionsOfLion,
                              .states = kStatesOfLion,
                              .of_elements = true,
                              .width_rule = [](const OptimOptions&) { return WidthRule::kElements; }};

}  // namespace longhaul::recipe
