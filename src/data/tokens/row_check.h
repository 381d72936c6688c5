// Whether a model can use a tokenizer that has more entries than the model's embedding has rows. Published
// models have such tokenizers: a padding token that somebody added later, and no row for it. An id without a
// row does no harm as long as no text holds it; the tokens that begin, separate and end texts are in every
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

// The first token that begins, separates or ends texts and is not below `rows`.
std::optional<int32_t> role_without_row(const Tokenizer& tokenizer, int64_t rows);

// The number of tokens that are not below `rows`; 0: the model has a row for each. Error (65) if one of them
// is in every text (see above). `where`: where the tokenizer stands. `hint`: what to type.
int64_t require_rows(const Tokenizer& tokenizer, int64_t rows, const std::string& where,
                     const std::string& hint);

// Reads every token of the documents; Error (65) names the first id that is not below `rows`, and its
// document.
void require_ids_below(const TokenDataset& dataset, int64_t rows, const std::string& hint);

}  // namespace longhaul::data
