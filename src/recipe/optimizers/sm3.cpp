#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr const OptimizerOption* kOptionsOfSm3[] = {&kMomentum, &kWeightDecay, &kSquareEps};
constexpr OptimizerState kStatesOfSm3[] = {
    {"momentum", OptimizerState::Of::kFirstMoment, /*with_momentum=*/true},
    {"row_bound", OptimizerState::Of::kRows},
    {"column_bound", OptimizerState::Of::kColumns},
    {"sum_of_squares", OptimizerState::Of::kVector}};

}  // namespace

extern const OptimizerEntry kSm3;
const OptimizerEntry kSm3 = {
    .name = "sm3",
    .keeps = "the largest second moments of rows and columns, and a momentum (sparse gradients)",
    .options = kOptionsOfSm3,
    .states = kStatesOfSm3,
    .momentum = 0.9};

}  // namespace longhaul::recipe
