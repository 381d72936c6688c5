#include "data/encoder.h"

#include <memory>

#include "base/error.h"
#include "data/tokenizer/stream_encoder.h"

namespace longhaul::data {

Encoder encoder_of(const Tokenizer& tokenizer) {
  if (!tokenizer.end_of_document()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has no token that ends a document",
                 .expected = fmt::format("{} or one of the usual end-of-text tokens", kEndOfDocument),
                 .hint = "add one to added_tokens of its tokenizer.json"});
  }
  Encoder encoder;
  encoder.encode = [tokenizer](std::string_view text, std::vector<int32_t>& ids) { tokenizer.encode_append(text, ids); };
  encoder.piecewise = [tokenizer]() -> Encoder::Piecewise {
    auto stream = std::make_shared<StreamEncoder>(tokenizer);
    return [stream](std::string_view piece, bool last, std::vector<int32_t>& ids) {
      stream->feed(piece, ids);
      if (last) stream->finish(ids);
    };
  };
  encoder.vocabulary = tokenizer.vocabulary();
  encoder.separator = *tokenizer.end_of_document();
  encoder.sha256 = tokenizer.sha256();
  return encoder;
}

}  // namespace longhaul::data
