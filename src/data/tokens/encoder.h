// Encoder: what preparing data needs of a tokenizer, so that anything that makes ids of bytes can be used.
//
// A document as a model sees it is what a text begins with, the text, and its end. The first of these tokens and the last are not stored: begin_id()
// and `separator`. What a template puts between them and the text belongs to the ids of the text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

struct Encoder {
  // Encodes one long document that comes in pieces, appending ids; the last call has last = true. One thread.
  using Piecewise = std::function<void(std::string_view piece, bool last, std::vector<int32_t>& ids)>;

  std::function<void(std::string_view text, std::vector<int32_t>& ids)> encode;  // appends; called from several threads
  std::function<Piecewise()> piecewise;                                          // gives the ids of encode of the whole
  int64_t vocabulary = 0;
  int32_t separator = 0;         // id of the end-of-document token
  std::optional<int32_t> begin;  // id that stands before a document where it is not the separator: the first of the tokenizer's template
  std::string sha256;            // of the tokenizer's definition

  int32_t begin_id() const { return begin.value_or(separator); }
  std::string marks() const;  // what is not stored, for keys of what was prepared
};

Encoder encoder_of(const Tokenizer& tokenizer);  // kData when it has no end-of-document token

}  // namespace longhaul::data
