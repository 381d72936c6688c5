// Encoder: the part of a tokenizer that the preparation of data needs, so that anything that makes ids from
// bytes can be used.
//
// A model sees a document as a begin token, the text, and an end token. The begin token and the end token are
// not stored: they are begin_id() and `separator`. Other tokens of a template belong to the ids of the text.
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
  // Encodes one long document that comes in pieces, appending ids; the last call has last = true. For one
  // thread.
  using Piecewise = std::function<void(std::string_view piece, bool last, std::vector<int32_t>& ids)>;

  // appends; called from several threads.
  std::function<void(std::string_view text, std::vector<int32_t>& ids)> encode;
  std::function<Piecewise()> piecewise;  // gives the same ids as encode() of the whole text
  // Encodes a part of a document by itself, as the text of a prompt that is continued: no token crosses into
  // the next part. Appends; called from several threads. The template's tokens belong to the first and the
  // last part.
  struct Place {
    bool first, last;
  };
  std::function<void(std::string_view text, Place place, std::vector<int32_t>& ids)> encode_part;
  int64_t vocabulary = 0;
  int32_t separator = 0;  // id of the end-of-document token
  // Id of the token before a document if it is not the separator: the first of the tokenizer's template.
  std::optional<int32_t> begin;
  std::string sha256;  // of the tokenizer's definition

  int32_t begin_id() const { return begin.value_or(separator); }
  std::string marks() const;  // the tokens that are not stored, for keys of prepared data
};

Encoder encoder_of(const Tokenizer& tokenizer);  // kData when the tokenizer has no end-of-document token

}  // namespace longhaul::data
