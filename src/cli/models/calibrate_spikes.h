// `--spikes-texts FILE` of sample and evaluate: the scales of weights in eight bits are chosen by what the
// matrices read of some texts.
#pragma once

#include <string>

#include "checkpoint/open_model.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::cli {

inline constexpr int64_t kCalibrationTexts = 128, kCalibrationTokens = 2048;  // at most; of a text

// The texts are a file as generate/prompts_file.h has them. Nothing where `file` is empty. Refuses a model
// whose weights are not in eight bits by groups (kUsage) and a file without texts (kData).
void calibrate_spikes(checkpoint::OpenModel& model, const data::Tokenizer& tokenizer,
                      const std::string& file);

}  // namespace longhaul::cli
