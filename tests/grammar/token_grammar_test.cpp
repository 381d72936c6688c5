// Which tokens a grammar lets through, beside a plain walk over the bytes of each.
#include "grammar/token_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "grammar/grammar_cache.h"
#include "grammar/json_schema.h"

namespace longhaul::grammar {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Tokens as tokenizers have them: bytes, pieces that begin alike, pieces over several parts of JSON, none.
std::vector<std::string> pieces() {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"",      "{\"",      "{\"na", "{\"name", "\": ", "\",\"", "}}",
                           "tr",    "true",     "true,", "12",      "1.5",  "é",     "\xc3",
                           "hello", "hello\"}", "  ",    "\n ",     "[[",   "]]",    "{\"name\": \"x\"}"})
    all.emplace_back(text);
  return all;
}

std::vector<int64_t> allowed_by_walk(const Grammar& grammar, std::string_view text,
                                     const std::vector<std::string>& bytes) {
  GrammarStates states(grammar);
  State begun = states.start();
  for (const char byte : text) begun = states.after(begun, static_cast<unsigned char>(byte));
  std::vector<int64_t> ids;
  for (size_t id = 0; id < bytes.size(); ++id) {
    State state = bytes[id].empty() ? kNoState : begun;
    for (const char byte : bytes[id]) {
      if (state != kNoState) state = states.after(state, static_cast<unsigned char>(byte));
    }
    if (state != kNoState) ids.push_back(static_cast<int64_t>(id));
  }
  return ids;
}

std::vector<int64_t> left_of(const std::vector<float>& logits) {
  std::vector<int64_t> ids;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != kNever) ids.push_back(static_cast<int64_t>(id));
  }
  return ids;
}

TEST(TokenGrammar, LeavesTheTokensThatAWalkOverTheirBytesLeaves) {
  const std::vector<std::string> bytes = pieces();
  const Grammar grammar = json_schema_grammar(ordered_json::parse(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "list": {"type": "array"},
          "yes": {"type": "boolean"}, "n": {"type": "number"}}, "required": ["name"]})"));
  const auto tokens = std::make_shared<const TokenBytes>(bytes);
  for (const std::string text :
       {"", "{", "{\"na", "{\"name\": \"a", "{\"name\": \"a\"", "{\"name\":\"\xc3",
        "{\"name\":\"\",\"list\":[", "{\"name\":\"\",\"yes\":", "{\"name\":\"\",\"n\":1"}) {
    TokenGrammar held(grammar, tokens);
    State state = held.start();
    for (const char byte : text) state = held.after(state, static_cast<unsigned char>(byte));
    std::vector<float> logits(bytes.size() + 3, 0.5F);  // the model has more rows than there are tokens
    held.restrict_to(state, {}, std::span<float>(logits));
    EXPECT_EQ(left_of(logits), allowed_by_walk(grammar, text, bytes)) << text;
    std::vector<double> wide(bytes.size(), 0.5);
    held.restrict_to(state, {}, std::span<double>(wide));  // from what is kept
    EXPECT_EQ(std::ranges::count(wide, 0.5), std::ssize(left_of(logits))) << text;
  }
}

TEST(TokenGrammar, StopIdsComeWhereTheTextMayEnd) {
  const auto tokens = std::make_shared<const TokenBytes>(pieces());
  TokenGrammar held(json_schema_grammar({{"type", "integer"}, {"minimum", 0}, {"maximum", 19}}), tokens);
  const std::vector<int64_t> stops = {256, 400, 5000};
  const auto left = [&](State state) {
    std::vector<float> logits(402, 1.0F);
    held.restrict_to(state, stops, std::span<float>(logits));
    return left_of(logits);
  };
  const State one = held.after(held.start(), '1'), seventeen = held.after(one, '7');
  EXPECT_THAT(left(held.start()), ::testing::Not(::testing::Contains(256)));
  EXPECT_THAT(left(one), ::testing::IsSupersetOf({int64_t{'0'}, int64_t{'9'}, int64_t{256}, int64_t{400}}));
  EXPECT_FALSE(held.must_end(one));
  EXPECT_TRUE(held.must_end(seventeen));
  EXPECT_THAT(left(seventeen), ElementsAre(256, 400));
}

TEST(TokenGrammar, SaysWhenNoTokenCanGoOn) {
  TokenGrammar held(json_object_grammar(),
                    std::make_shared<const TokenBytes>(std::vector<std::string>{"a", "b"}));
  std::vector<float> logits(2, 0.0F);
  try {
    held.restrict_to(held.start(), {}, std::span<float>(logits));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("a token for every byte"));
  }
}

TEST(TokenBytesTest, SpecialTokensAddNone) {
  const TokenBytes bytes{data::Tokenizer::bytes()};
  EXPECT_EQ(bytes.of('{'), "{");
  EXPECT_EQ(bytes.of(255), "\xff");
  EXPECT_EQ(bytes.of(256), "");
  EXPECT_EQ(bytes.of(100000), "");
}

TEST(GrammarCacheTest, KeepsTheLastOnes) {
  GrammarCache cache{data::Tokenizer::bytes()};
  int made = 0;
  const auto make = [&] {
    ++made;
    return json_object_grammar();
  };
  const auto first = cache.get("a", make);
  EXPECT_EQ(cache.get("a", make), first);
  for (size_t i = 0; i + 1 < GrammarCache::kKept; ++i) cache.get("b" + std::to_string(i), make);
  EXPECT_EQ(cache.get("a", make), first);
  EXPECT_EQ(made, 16);
  cache.get("c", make);
  cache.get("b0", make);
  EXPECT_EQ(made, 18) << "the one used longest ago is gone";
}

}  // namespace
}  // namespace longhaul::grammar
