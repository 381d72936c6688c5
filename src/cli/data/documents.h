// The documents of prepared data with what their tokens weigh in the loss, for `data show` and `data
// prepare`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"

namespace longhaul::cli {

struct ShownDocuments {
  int64_t most = 0;                               // of each side
  std::optional<data::Tokenizer> tokenizer = {};  // that made the tokens, for their text; none: tokens only
};

// kUsage where the tokenizer is another one.
void require_tokenizer_of(const data::PreparedSource& source, const ShownDocuments& shown);

void print_documents(const data::PreparedSource& source, const ShownDocuments& shown);
nlohmann::ordered_json json_of_documents(const data::PreparedSource& source, const ShownDocuments& shown);

}  // namespace longhaul::cli
