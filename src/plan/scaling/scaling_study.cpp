#include "plan/scaling/scaling_study.h"

#include "base/error.h"

namespace longhaul::plan {

std::string_view name_of(StudyArchitecture architecture) {
  switch (architecture) {
    case StudyArchitecture::kLlama:
      return "llama";
    case StudyArchitecture::kTnl:
      return "tnl";
    case StudyArchitecture::kHgrn2:
      return "hgrn2";
    case StudyArchitecture::kCosformer2:
      return "cosformer2";
    case StudyArchitecture::kHybridLightning:
      return "hybrid_lightning";
  }
  LONGHAUL_ASSERT(false, "architecture {}", static_cast<int>(architecture));
}

double study_parameters(StudyArchitecture architecture, const StudyShape& shape) {
  const auto [l, d, h, g] = shape;
  const double shared = l * (4 * d * d + 3 * d * g);
  switch (architecture) {
    case StudyArchitecture::kLlama:
      return shared;
    case StudyArchitecture::kTnl:
      return shared + 2 * l * d * d / h;
    case StudyArchitecture::kHgrn2:
      return shared + l * d;
    case StudyArchitecture::kCosformer2:
      return shared + 2 * l * d * d / h + d * d / h;
    case StudyArchitecture::kHybridLightning:
      return shared + 7 * l * d * d / (4 * h);
  }
  LONGHAUL_ASSERT(false, "architecture {}", static_cast<int>(architecture));
}

double study_training_flops(StudyArchitecture architecture, const StudyShape& shape, double sequence,
                            double tokens) {
  const double l = shape.layers, d = shape.hidden, h = shape.heads;
  const auto share = [&]() -> double {
    switch (architecture) {
      case StudyArchitecture::kLlama:
        return sequence / (6 * d) + 5 / (18 * d);
      case StudyArchitecture::kTnl:
        return 1 / (2 * h) + 5 / (18 * d);
      case StudyArchitecture::kHgrn2:
        return 1 / (3 * h) + 29 / (72 * d);
      case StudyArchitecture::kCosformer2:
        return 3 / (4 * h) + 23 / (72 * d);
      case StudyArchitecture::kHybridLightning:
        return sequence / (48 * d) + 7 / (16 * h) + 5 / (18 * d);
    }
    LONGHAUL_ASSERT(false, "architecture {}", static_cast<int>(architecture));
  };
  return 72 * tokens * l * d * d * (1 + share());
}

StudyShape StudyModel::shape_of(StudyArchitecture architecture) const {
  StudyShape own = shape;
  if (architecture == StudyArchitecture::kTnl || architecture == StudyArchitecture::kCosformer2)
    own.layers = linear_layers;
  return own;
}

std::span<const StudyModel> study_models() {
  static constexpr StudyModel kModels[] = {
      {"70M", {6, 512, 4, 1536}, 6, {20.5, 21.2, 20.5, 21.3}, {1.6, 0.5, 0.5, 0.5}},
      {"160M", {12, 768, 6, 2048}, 12, {85.0, 87.3, 84.9, 87.5}, {5.6, 2.2, 2.1, 2.3}},
      {"410M", {26, 1024, 8, 2816}, 25, {334.1, 327.7, 334.0, 328.0}, {18.0, 7.9, 8.0, 8.1}},
      {"1B", {32, 1536, 12, 4096}, 32, {906.2, 918.6, 906.0, 919.1}, {40.4, 22.3, 22.0, 22.7}},
      {"3B", {35, 2560, 20, 6912}, 35, {2775.8, 2798.4, 2775.5, 2799.0}, {99.6, 66.6, 66.0, 67.4}},
      {"7B", {32, 4096, 32, 11008}, 32, {6476.5, 6509.6, 6476.1, 6511.0}, {202.7, 154.4, 153.6, 155.6}}};
  return kModels;
}

std::span<const StudyLaws> study_laws() {
  static const StudyLaws kLaws[] = {
      {StudyArchitecture::kLlama, {3.7087, -0.0798}, {1.82e8, 0.7118}, {2.56e10, 0.5102}},
      {StudyArchitecture::kTnl, {3.5391, -0.0768}, {2.74e8, 0.6470}, {4.43e10, 0.4684}},
      {StudyArchitecture::kHgrn2, {3.4788, -0.0753}, {2.66e8, 0.6427}, {4.80e10, 0.4500}},
      {StudyArchitecture::kCosformer2, {3.5877, -0.0756}, {2.65e8, 0.6516}, {4.23e10, 0.4529}},
      {StudyArchitecture::kHybridLightning, {3.4797, -0.0763}, {2.57e8, 0.6670}, {3.70e10, 0.4707}}};
  return kLaws;
}

}  // namespace longhaul::plan
