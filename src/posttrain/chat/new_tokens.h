// New special tokens of a tokenizer, for chat templates that write tokens which the model does not have yet.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::posttrain {

struct GrownTokenizer {
  data::Tokenizer tokenizer;       // without roles, as it was loaded
  std::vector<std::string> added;  // the tokens that it lacked; their ids follow those that there were
};

// kUsage: a token is empty, or one that the tokenizer has without knowing it as special.
GrownTokenizer with_special_tokens(const data::Tokenizer& tokenizer, const std::vector<std::string>& tokens);

}  // namespace longhaul::posttrain
