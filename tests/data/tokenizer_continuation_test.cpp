// Text that is shown while it grows equals the text of all tokens.
#include <gtest/gtest.h>

#include "data/tokenizer/continuation.h"

namespace longhaul::data {
namespace {

// As SentencePiece writes it: ▁ is a space, the first of a text is dropped, <0x..> are bytes.
Tokenizer sentence_piece() {
  return Tokenizer::from_json(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
    "pre_tokenizer":null,"post_processor":null,
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
               {"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","dropout":null,"unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"ignore_merges":false,
             "vocab":{"<unk>":0,"<0xC3>":1,"<0xA9>":2,"▁":3,"a":4,"b":5,"▁a":6},"merges":["▁ a"]}})",
                              "t.json");
}

TEST(Continuation, KeepsTheSpacesBetweenWords) {
  const Tokenizer tokenizer = sentence_piece();
  Continuation text(tokenizer, {6});
  EXPECT_EQ(text.add(6), " a");
  EXPECT_EQ(text.add(5), "b");
  EXPECT_EQ(text.text(), " ab");
  Continuation alone(tokenizer, {});
  EXPECT_EQ(alone.add(6), "a") << "the first space of a text is the tokenizer's own";
}

// Only the last tokens are decoded again; the text is still that of all of them, whatever they are: random
// ones, letters in bytes, spaces at the start.
TEST(Continuation, LongTextsAreThoseOfAllTokens) {
  for (const Tokenizer& tokenizer : {sentence_piece(), Tokenizer::bytes()}) {
    const bool fallback = tokenizer.vocabulary() == 7;
    std::vector<int32_t> ids = {fallback ? 6 : 'x'};
    Continuation text(tokenizer, ids);
    const std::string prompt = tokenizer.decode(ids);
    uint32_t state = 1;
    for (int i = 0; i < 700; ++i) {
      state = state * 1664525 + 1013904223;
      const auto draw = static_cast<int32_t>(state >> 16);
      const std::vector<int32_t> next =
          draw % 5 == 0 ? (fallback ? std::vector<int32_t>{1, 2} : std::vector<int32_t>{0xc3, 0xa9})
                        : std::vector<int32_t>{fallback ? 3 + draw % 4 : 'a' + draw % 3};
      for (const int32_t id : next) {
        text.add(id);
        ids.push_back(id);
      }
      ASSERT_EQ(prompt + text.text() + text.rest(), tokenizer.decode(ids)) << i;
    }
  }
}

TEST(Continuation, ShowsWholeCharactersOnly) {
  const Tokenizer fallback = sentence_piece(), bytes = Tokenizer::bytes();
  Continuation by_fallback(fallback, {4});
  EXPECT_EQ(by_fallback.add(1), "");
  EXPECT_EQ(by_fallback.add(2), "é");
  EXPECT_EQ(by_fallback.add(1), "");
  EXPECT_EQ(by_fallback.rest(), "\xc3");
  Continuation by_bytes(bytes, {'x'});
  EXPECT_EQ(by_bytes.add(0xf0), "");
  EXPECT_EQ(by_bytes.add(0x9f), "");
  EXPECT_EQ(by_bytes.add(0x98), "");
  EXPECT_EQ(by_bytes.add(0x80), "😀");
  EXPECT_EQ(by_bytes.add(0x80), "\x80") << "what no byte completes is not waited for";
  EXPECT_EQ(by_bytes.text(), "😀\x80");
}

}  // namespace
}  // namespace longhaul::data
