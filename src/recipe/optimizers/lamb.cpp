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
constexpr OptimizerOption kLambGradAveraging = {
    .name = "lamb_grad_averaging",
    .field = &OptimOptions::lamb_grad_averaging,
    .help = "a new gradient counts 1 - beta1 in the first moment; false: 1.",
    .for_comparisons = true,
    .also_called = {"grad_averaging"}};
constexpr double kLargestRatio = 1e12;
constexpr OptimizerOption kLambMinRatio = {
    .name = "lamb_min_ratio",
    .field = &OptimOptions::lamb_min_ratio,
    .help = "a trust ratio below this is raised to it (DeepSpeed's min_coeff, 0.01 there); 0: never.",
    .most = kLargestRatio,
    .for_comparisons = true,
    .also_called = {"min_coeff"}};
constexpr OptimizerOption kLambMaxRatio = {
    .name = "lamb_max_ratio",
    .field = &OptimOptions::lamb_max_ratio,
    .help = "a trust ratio above this is lowered to it (DeepSpeed's max_coeff, 10 there); 0: never.",
    .most = kLargestRatio,
    .for_comparisons = true,
    .also_called = {"max_coeff"}};
constexpr const OptimizerOption* kOptionsOfLamb[] = {
    &kBeta1,        &kBeta2,       &kEps, &kWeightDecay, &kNvlamb, &kLambDecay, &kLambGradAveraging,
    &kLambMinRatio, &kLambMaxRatio};
constexpr OptimizerState kStatesOfLamb[] = {{"m", OptimizerState::Of::kFirstMoment},
                                            {"v", OptimizerState::Of::kSecondMoment}};

std::optional<OptimizerRefusal> refusal_of_lamb(const OptimOptions& options) {
  if (options.lamb_max_ratio == 0 || options.lamb_min_ratio <= options.lamb_max_ratio) return std::nullopt;
  return OptimizerRefusal{"lamb_min_ratio", "lamb_max_ratio",
                          "no trust ratio is at least lamb_min_ratio and at most lamb_max_ratio", "0"};
}

}  // namespace

extern const OptimizerEntry kLamb;
const OptimizerEntry kLamb = {
    .name = "lamb",
    .keeps = "the same, with steps in proportion to the weights of each tensor (large batches)",
    .options = kOptionsOfLamb,
    .states = kStatesOfLamb,
    .scales_to_weights = true,
    .refusal = refusal_of_lamb};

}  // namespace longhaul::recipe
