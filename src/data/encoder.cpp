#include "data/encoder.h"

#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "data/tokenizer/stream_encoder.h"

namespace longhaul::data {

Encoder encoder_of(const Tokenizer& tokenizer) {
  const auto separator = tokenizer.end_of_document();
  if (!separator) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer cannot separate documents",
                 .expected = fmt::format("an added token {} (or <|endoftext|>, <|end_of_text|>, </s>)", kEndOfDocument),
                 .found = "none",
                 .hint = program_command("tokenizer train") + " makes one that can"});
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
  encoder.separator = *separator;
  encoder.sha256 = tokenizer.sha256();
  return encoder;
}

}  // namespace longhaul::data
