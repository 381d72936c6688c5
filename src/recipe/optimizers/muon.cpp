#include "recipe/optimizers/options.h"

namespace longhaul::recipe {
namespace {

constexpr OptimizerOption kMuonScale = {
    .name = "muon_scale",
    .field = &OptimOptions::muon_scale,
    .help =
        "updates as large as adamw's (match_rms: 0.2 sqrt(longer side), for adamw's learning rates), or the "
        "original sqrt(max(1, rows / columns))."};
constexpr OptimizerOption kMuonIterations = {.name = "muon_iterations",
                                             .field = &OptimOptions::muon_iterations,
                                             .help = "Newton-Schulz iterations.",
                                             .least = 1,
                                             .most = 100};
constexpr const OptimizerOption* kOptionsOfMuon[] = {&kMomentum, &kWeightDecay, &kNesterov, &kMuonScale,
                                                     &kMuonIterations};
constexpr OptimizerState kStatesOfMuon[] = {{"momentum", OptimizerState::Of::kFirstMoment}};

WidthRule width_rule_of_muon(const OptimOptions& options) {
  return options.muon_scale == MuonScale::kMatchRms ? WidthRule::kRootOfElements : WidthRule::kSpectral;
}

}  // namespace

extern const OptimizerEntry kMuon;
const OptimizerEntry kMuon = {
    .name = "muon",
    .keeps =
        "one momentum of matrices of layers, whose updates are made orthogonal; the rest has adamw (adamw's "
        "lr and weight decay)",
    .options = kOptionsOfMuon,
    .states = kStatesOfMuon,
    .momentum = 0.95,
    .whole_matrices = true,
    .beside = "adamw",
    .width_rule = width_rule_of_muon};

}  // namespace longhaul::recipe
