// prepare_tokens: token files of other programs (data/corpus/token_files.h) → token shards in the cache, once
// for each (files, tokenizer, held-out percentage); later runs find them by that key, as with prepare() for
// text. Documents are held out by a hash of their tokens, so that equal ones are on the same side. Copies are
// kept, except those of a document in `validation`, which is never trained on. The bytes of a document are
// the text that the tokenizer decodes from its tokens. Files are read again only when they change.
#pragma once

#include <filesystem>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct TokenSource {
  std::filesystem::path path;
  int64_t held_out_percent = 1;  // 100: all (a source of data.validation)
  // The prepared sources of data.validation, with the same tokenizer.
  std::vector<const TokenDataset*> validation{};
};

PreparedSource prepare_tokens(const TokenSource& source, const Tokenizer& tokenizer,
                              const std::filesystem::path& cache);

}  // namespace longhaul::data
