// A tokenizer as the fields of a GGUF file. llama.cpp knows byte-level BPE by the name of its splitting rules
// ("gpt-2", "llama-bpe", "qwen2"), and SentencePiece's BPE by the order in which its merges are preferred.
#pragma once

#include <filesystem>

#include "data/tokenizer/tokenizer.h"
#include "storage/gguf.h"

namespace longhaul::checkpoint {

// rows: of the embedding; those without a token get a name of their own and are marked unused. `format_of`:
// the run folder whose chat template goes along. kUsage for a tokenizer whose splitting llama.cpp does not
// have.
storage::GgufFields gguf_tokenizer_fields(const data::Tokenizer& tokenizer, int64_t rows,
                                          const std::filesystem::path& format_of);

}  // namespace longhaul::checkpoint
