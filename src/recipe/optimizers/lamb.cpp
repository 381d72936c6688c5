#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr OptimizerOption kNvlamb = {
    .name = "nvlamb",
    .field = &OptimOptions::nvlamb,
    .help = "tensors without weight decay are scaled by their trust ratio too.",
    .for_comparisons = true};
constexpr OptimizerOption kLambDecay = {
    .name = "lamb_decay",
    .field = &OptimOptions::lamb_decay,
    .help = "weight decay joins the update (decoupled) or the gradient (l2).",
    .for_comparisons = true};
constexpr const OptimizerOption* kOptionsOfLamb[] = {&kBeta1,       &kBeta2,  &kEps,
                                                     &kWeightDecay, &kNvlamb, &kLambDecay};
constexpr OptimizerState kStatesOfLamb[] = {{"m", OptimizerState::Of::kFirstMoment},
                                            {"v", OptimizerState::Of::kSecondMoment}};

}  // namespace

extern const OptimizerEntry kLamb;
const OptimizerEntry kLamb = {
    .name = "lamb",
    .keeps = "the same, with steps in proportion to the weights of each tensor (large batches)",
    .options = kOptionsOfLamb,
    .states = kStatesOfLamb,
    .scales_to_weights = true};

}  // namespace longhaul::recipe
