#include "data/tokens/encoder.h"

#include <memory>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/stream_encoder.h"

namespace longhaul::data {

std::string Encoder::marks() const {
  return begin ? fmt::format("{} begin {}", separator, *begin) : std::to_string(separator);
}

Encoder encoder_of(const Tokenizer& tokenizer) {
  const auto separator = tokenizer.end_of_document();
  if (!separator) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer cannot separate documents",
                 .expected = fmt::format("an added token {} (or <|endoftext|>, <|end_of_text|>, </s>, <eos>)",
                                         kEndOfDocument),
                 .found = "none",
                 .where = "data.tokenizer",
                 .hint = "data.end_of_document=TOKEN names one of its tokens; " +
                         program_command("tokenizer train") + " makes a tokenizer that has one"});
  }
  const std::vector<int32_t>& before = tokenizer.before();
  const std::vector<int32_t> front(before.empty() ? before.end() : before.begin() + 1, before.end());
  std::vector<int32_t> back = tokenizer.after();
  if (!back.empty() && back.back() == *separator) back.pop_back();  // it is the document's end
  Encoder encoder;
  encoder.encode = [tokenizer, front, back](std::string_view text, std::vector<int32_t>& ids) {
    ids.insert(ids.end(), front.begin(), front.end());
    tokenizer.encode_append(text, ids);
    ids.insert(ids.end(), back.begin(), back.end());
  };
  encoder.encode_part = [tokenizer, front, back](std::string_view text, Encoder::Place place,
                                                 std::vector<int32_t>& ids) {
    if (place.first) ids.insert(ids.end(), front.begin(), front.end());
    tokenizer.encode_part(text, {place.first, place.last}, ids, /*add_special=*/false);
    if (place.last) ids.insert(ids.end(), back.begin(), back.end());
  };
  encoder.piecewise = [tokenizer, front, back]() -> Encoder::Piecewise {
    auto stream = std::make_shared<StreamEncoder>(tokenizer);
    auto first = std::make_shared<bool>(true);
    return [stream, first, front, back](std::string_view piece, bool last, std::vector<int32_t>& ids) {
      if (*first) ids.insert(ids.end(), front.begin(), front.end());
      *first = last;
      stream->feed(piece, ids);
      if (!last) return;
      stream->finish(ids);
      ids.insert(ids.end(), back.begin(), back.end());
    };
  };
  encoder.vocabulary = tokenizer.vocabulary();
  encoder.separator = *separator;
  if (!before.empty() && before.front() != *separator) encoder.begin = before.front();
  encoder.sha256 = tokenizer.sha256();
  return encoder;
}

}  // namespace longhaul::data
