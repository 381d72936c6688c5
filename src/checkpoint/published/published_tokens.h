// What the files beside published weights say of tokens: which of them end a text. As transformers has it, eos_token_id of generation_config.json
// decides, then that of config.json, then eos_token of tokenizer_config.json.
#pragma once

#include <filesystem>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::checkpoint {

// By the texts of the tokenizer's tokens, for data.end_of_document and data.stop_tokens. The token between documents is named only where the tokenizer
// has none of a usual name: an instruct model ends its turns with another one than its documents. kData errors name the file and the field.
data::TokenRoles published_roles(const std::filesystem::path& folder, const data::Tokenizer& tokenizer);

}  // namespace longhaul::checkpoint
