#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr OptimizerOption kBeta3 = {
    .name = "beta3",
    .field = &OptimOptions::beta3,
    .help =
        "decay of the residuals' means per step. They begin at 0 uncorrected: the nearer to 1, the longer a "
        "warm-up it needs.",
    .most = kAlmostOne};
constexpr OptimizerOption kResidualEps = {.name = "residual_eps",
                                          .field = &OptimOptions::residual_eps,
                                          .help = "added to squared residuals.",
                                          .above = true};
constexpr OptimizerOption kCorrectResiduals = {
    .name = "correct_residuals",
    .field = &OptimOptions::correct_residuals,
    .help =
        "the residuals' means are divided by 1 - beta3^step, as Adam corrects its moments, so that early "
        "steps are not too large (not in the paper)."};
constexpr const OptimizerOption* kOptionsOfCame[] = {
    &kBeta1, &kBeta2, &kBeta3, &kWeightDecay, &kUpdateClip, &kSquareEps, &kResidualEps, &kCorrectResiduals};
constexpr OptimizerState kStatesOfCame[] = {
    {"momentum", OptimizerState::Of::kFirstMoment},    {"row_mean", OptimizerState::Of::kRows},
    {"column_mean", OptimizerState::Of::kColumns},     {"row_residual", OptimizerState::Of::kRows},
    {"column_residual", OptimizerState::Of::kColumns}, {"second_moment", OptimizerState::Of::kVector}};

}  // namespace

extern const OptimizerEntry kCame;
const OptimizerEntry kCame = {
    .name = "came",
    .keeps =
        "one momentum of every element and second moments of rows and columns (half the memory; try 0.7 of "
        "adamw's lr)",
    .options = kOptionsOfCame,
    .states = kStatesOfCame,
    .width_rule = [](const OptimOptions&) { return WidthRule::kElements; }};

}  // namespace longhaul::recipe
