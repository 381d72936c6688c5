// Encoder: what preparing data needs of a tokenizer, so that anything that makes ids of bytes can be used.
#pragma once

#include <cstdint>
#include <functional>
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
  int32_t separator = 0;  // id of the end-of-document token
  std::string sha256;     // of the tokenizer's definition
};

Encoder encoder_of(const Tokenizer& tokenizer);  // kData when it has no end-of-document token

}  // namespace longhaul::data
