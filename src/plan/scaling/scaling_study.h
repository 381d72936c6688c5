// The study of scaling laws of linear models (2406.16690): the formulas of its architectures, its models, and
// its published laws, to be compared with one's own. Multiply-adds count 2; a training step counts as three
// forward passes; embeddings do not count; sums over heads are those of the study (block, gate and position
// widths equal the head dimension d/h). Where its tables contradict each other, the values that reproduce the
// printed parameters and FLOPs are used: the 1B model has 12 heads of 128 and a width of 4096 (another table
// prints 16 and 5632).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "plan/scaling/scaling_law.h"

namespace longhaul::plan {

// kHybridLightning: seven layers of lightning attention, then one of softmax (MiniMax-01, arXiv 2501.08313
// §2.2.3), a continuation of the study; the others are from the study itself.
enum class StudyArchitecture { kLlama, kTnl, kHgrn2, kCosformer2, kHybridLightning };
inline constexpr StudyArchitecture kStudyArchitectures[] = {
    StudyArchitecture::kLlama, StudyArchitecture::kTnl, StudyArchitecture::kHgrn2,
    StudyArchitecture::kCosformer2};
// "llama", "tnl", "hgrn2", "cosformer2", "hybrid_lightning"
std::string_view name_of(StudyArchitecture architecture);

struct StudyShape {
  double layers = 0, hidden = 0, heads = 0;
  double width = 0;  // width of the channel mixers
};
// Without embeddings and norms.
double study_parameters(StudyArchitecture architecture, const StudyShape& shape);
// FLOPs of a step of `tokens` tokens in sequences of `sequence`; as in the study's tables, channel mixers
// count as 8d/3 wide and the softmax itself is not counted.
double study_training_flops(StudyArchitecture architecture, const StudyShape& shape, double sequence,
                            double tokens);

inline constexpr double kStudySequence = 8192, kStudyBatch = 480;

// StudyModel: a model of the study with its printed values: parameters in millions, PFLOP of a step, by
// architecture.
struct StudyModel {
  std::string_view name;
  StudyShape shape;
  double linear_layers;          // for TNL and cosFormer2
  double printed_parameters[4];  // in the order of kStudyArchitectures
  double printed_petaflops[4];
  StudyShape shape_of(StudyArchitecture architecture) const;
};
std::span<const StudyModel> study_models();

// StudyLaws: L(C), N_opt(C), D_opt(C) as published, without deviation and points.
struct StudyLaws {
  StudyArchitecture architecture;
  PowerLaw loss, parameters, tokens;
};
std::span<const StudyLaws> study_laws();

}  // namespace longhaul::plan
