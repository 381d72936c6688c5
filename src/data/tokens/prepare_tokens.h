// prepare_tokens: token files of others (data/corpus/token_files.h) → token shards in the cache, once for each (files, tokenizer, share held out), found
// again by that key, as prepare() does for text. Documents are held out by a hash of their tokens, so equal ones lie on the same side; copies stay, but those
// of a document of `validation`: that is never trained on.
// The bytes of a document are those that the tokenizer makes of its tokens. Files are read once more only when they change.
#pragma once

#include <filesystem>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct TokenSource {
  std::filesystem::path path;
  int64_t held_out_percent = 1;                   // 100: all (a source of data.validation)
  std::vector<const TokenDataset*> validation{};  // the prepared sources of data.validation, of the same tokenizer
};

PreparedSource prepare_tokens(const TokenSource& source, const Tokenizer& tokenizer, const std::filesystem::path& cache);

}  // namespace longhaul::data
