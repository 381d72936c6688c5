// Training of byte-level BPE tokenizers: the vocabulary and merges are those that the `BpeTrainer` of
// `tokenizers` 0.23 makes from the same texts with the byte alphabet and no frequency limit. Ids are special
// tokens, then the 256 bytes in the order of their printable characters, then merges; the pair with the
// highest count is merged next, and among equal ones the one with the smaller ids. The result depends neither
// on the number of threads nor on the order of the texts or their division into chunks at word ends.
//
//   Tokenizer tokenizer = train_bpe(next_text, {.vocabulary = 8192});
//
// Source: Sennrich et al. 2016 (arXiv 1508.07909); ties are broken as in `tokenizers`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

struct TrainOptions {
  // tokens in all: special tokens, 256 bytes and merges
  int64_t vocabulary = 8192;
  std::vector<std::string> special_tokens{std::string(kEndOfDocument)};  // ids 0, 1, …
  PreTokenizerKind pre_tokenizer = PreTokenizerKind::kGpt2;
  int64_t minimum_count = 0;  // pairs seen less often are not merged
};

// Puts the next text into its argument; false: there are no more. Called from one thread.
using TextSource = std::function<bool(std::string&)>;

// The tokenizer has fewer tokens than requested when the texts have no more pairs. Memory: the distinct
// words, and 64 MiB of text.
Tokenizer train_bpe(const TextSource& next_text, const TrainOptions& options);

}  // namespace longhaul::data
