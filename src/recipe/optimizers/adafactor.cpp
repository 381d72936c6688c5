#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr OptimizerOption kAdafactorForm = {
    .name = "adafactor_form",
    .field = &OptimOptions::adafactor_form,
    .help =
        "fairseq (the paper's, and Hugging Face's), torch (torch.optim.Adafactor) or big_vision (second "
        "moments' decay at most 0.999).",
    .most = 2,
    .for_comparisons = true};
constexpr OptimizerOption kScaleByWeights = {
    .name = "scale_by_weights",
    .field = &OptimOptions::scale_by_weights,
    .help = "steps are relative to the root mean square of a tensor's weights (form fairseq)."};
constexpr OptimizerOption kRelativeStep = {
    .name = "relative_step",
    .field = &OptimOptions::relative_step,
    .help = "the learning rate is at most 1/sqrt(step) (form fairseq)."};
constexpr const OptimizerOption* kOptionsOfAdafactor[] = {
    &kMomentum, &kWeightDecay, &kAdafactorForm, &kScaleByWeights, &kRelativeStep, &kUpdateClip, &kSquareEps};
constexpr OptimizerState kStatesOfAdafactor[] = {
    {"momentum", OptimizerState::Of::kFirstMoment, /*with_momentum=*/true},
    {"row_mean", OptimizerState::Of::kRows},
    {"column_mean", OptimizerState::Of::kColumns},
    {"second_moment", OptimizerState::Of::kVector}};

WidthRule width_rule_of_adafactor(const OptimOptions& options) {
  return options.scale_by_weights || options.relative_step ? WidthRule::kUnknown : WidthRule::kElements;
}

std::optional<OptimizerRefusal> refusal_of_adafactor(const OptimOptions& options) {
  if (options.adafactor_form != AdafactorForm::kTorch || options.momentum <= 0) return std::nullopt;
  return OptimizerRefusal{"momentum", "adafactor_form", "torch's form of adafactor has no momentum", "0"};
}

}  // namespace

extern const OptimizerEntry kAdafactor;
const OptimizerEntry kAdafactor = {
    .name = "adafactor",
    .keeps = "second moments of rows and columns, and a momentum if asked for (least memory)",
    .options = kOptionsOfAdafactor,
    .states = kStatesOfAdafactor,
    .width_rule = width_rule_of_adafactor,
    .width_hint = "optim.relative_step=false optim.scale_by_weights=false",
    .refusal = refusal_of_adafactor};

}  // namespace longhaul::recipe
