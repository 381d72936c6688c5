// Samples as they are learnt, for people who want to see the rule before they train: the text of the tokens,
// with those that count in the loss in colour, or between ⟦ and ⟧ where there are no colours.
#pragma once

#include <string>

#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"

namespace longhaul::posttrain {

inline constexpr int64_t kShownSamples = 3;

// One sample under a line that says how many of its labels are learnt; long texts are shortened in the
// middle.
std::string shown_sample(const data::TokenDataset& dataset, int64_t document,
                         const data::Tokenizer& tokenizer, bool colours);
// The first samples, and a line about what the colours mean.
std::string shown_samples(const data::TokenDataset& dataset, int64_t most, const data::Tokenizer& tokenizer,
                          bool colours);

}  // namespace longhaul::posttrain
