// Reads from the files that accompany published weights which tokens end a text. As in transformers,
// eos_token_id of generation_config.json decides, then that of config.json, then eos_token of
// tokenizer_config.json.
#pragma once

#include <filesystem>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::checkpoint {

// The roles, by the texts of the tokenizer's tokens, for data.end_of_document and data.stop_tokens. The
// token between documents is named only if the tokenizer has none with a usual name, because an instruct
// model ends its turns with another token than its documents. kData errors name the file and the field.
data::TokenRoles published_roles(const std::filesystem::path& folder, const data::Tokenizer& tokenizer);

}  // namespace longhaul::checkpoint
