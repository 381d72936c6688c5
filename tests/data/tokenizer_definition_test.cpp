// Malformed and unsupported tokenizer.json files: each is Error 65 that names the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json small() {
  return Json::parse(R"({"version":"1.0","truncation":null,"padding":null,
    "added_tokens":[{"id":4,"content":"<end>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
    "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
    "post_processor":null,"decoder":{"type":"ByteLevel"},
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"aba":3},"merges":["a b",["ab","a"]]}})");
}

void expect_refused(const std::function<void(Json&)>& spoil, const std::string& message) {
  Json json = small();
  spoil(json);
  try {
    Tokenizer::from_json(json.dump(), "t.json");
    ADD_FAILURE() << "not refused: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData) << message;
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(TokenizerDefinition, TheSmallOneIsGood) {
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump(), "t.json");
  EXPECT_EQ(tokenizer.encode("aba<end>b"), (std::vector<int32_t>{3, 4, 1}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("aba<end>b")), "aba<end>b");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("aba<end>b"), true), "abab");
  EXPECT_EQ(tokenizer.vocabulary(), 5);
  EXPECT_EQ(tokenizer.sha256().size(), 64u);
  EXPECT_TRUE(tokenizer.is_special(4));
}

// Found by the fuzzer: what PCRE2 lacks in a category was looked for at every mention, milliseconds each.
TEST(TokenizerDefinition, ACategoryIsLookedUpOnceAPattern) {
  std::string pattern;
  for (int i = 0; i < 4000; ++i) pattern += "\\p{Lu}";
  Json json = small();
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const std::clock_t begin = std::clock();
  try {
    Tokenizer::from_json(json.dump(), "t.json");
  } catch (const Error& error) {  // "too large", where PCRE2 says so
    EXPECT_EQ(error.code(), ExitCode::kData);
  }
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);  // 0.1 s; 24 s when looked up 4,000 times
}

TEST(TokenizerDefinition, WrongPartsAreRefusedWithTheirPlace) {
  expect_refused([](Json& j) { j["pre_tokenizer"]["type"] = "Whitespace"; }, "pre-tokenizer Whitespace");
  expect_refused([](Json& j) { j["pre_tokenizer"]["type"] = 7; }, "t.json:/pre_tokenizer/type");
  expect_refused([](Json& j) { j["normalizer"] = {{"type", "Lowercase"}}; }, "normalizer Lowercase");
  expect_refused([](Json& j) { j["decoder"]["type"] = "WordPiece"; }, "decoder WordPiece");
  expect_refused(
      [](Json& j) {
        j["post_processor"] = {{"type", "BertProcessing"}};
      },
      "post-processor BertProcessing");
  expect_refused([](Json& j) { j["model"]["type"] = "Unigram"; }, "model Unigram");
  expect_refused([](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; },
                 "continuing_subword_prefix");
  expect_refused([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  expect_refused([](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout");
  expect_refused([](Json& j) { j["truncation"] = 5; }, "truncation");
  expect_refused([](Json& j) { j["version"] = "2.0"; }, "t.json:/version");
  expect_refused([](Json& j) { j.erase("model"); }, "\"model\"");
  expect_refused([](Json& j) { j["model"]["vocab"] = Json::array(); }, "t.json:/model/vocab");
  expect_refused([](Json& j) { j["model"]["vocab"]["b"] = 0; }, "id 0 also belongs to");
  expect_refused([](Json& j) { j["model"]["vocab"]["b"] = -1; }, "t.json:/model/vocab/b");
  expect_refused([](Json& j) { j["model"]["vocab"]["b"] = 1e9; }, "t.json:/model/vocab/b");
  expect_refused([](Json& j) { j["model"]["vocab"]["b"] = 4000000000u; }, "t.json:/model/vocab/b");
  expect_refused([](Json& j) { j["model"]["merges"][0] = "a z"; }, "\"z\", which is not in it");
  expect_refused([](Json& j) { j["model"]["merges"][0] = "b a"; }, "\"ba\", which is not in it");
  expect_refused([](Json& j) { j["model"]["merges"][0] = "ab"; }, "t.json:/model/merges/0");
  expect_refused([](Json& j) { j["model"]["merges"][1] = {"a"}; }, "t.json:/model/merges/1");
  expect_refused([](Json& j) { j["model"]["unk_token"] = "?"; }, "unk_token");
  expect_refused([](Json& j) { j["added_tokens"][0]["id"] = 9; }, "t.json:/added_tokens/0/id");
  expect_refused([](Json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }, "a second time");
  expect_refused(
      [](Json& j) {
        j["pre_tokenizer"] = {
            {"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}, {"invert", false}};
      },
      "t.json:/pre_tokenizer/pattern");
  expect_refused(
      [](Json& j) {
        j["pre_tokenizer"] = {
            {"type", "Split"}, {"pattern", {{"Regex", "\\bx"}}}, {"behavior", "Isolated"}, {"invert", false}};
      },
      "\\b in");
  expect_refused(
      [](Json& j) {
        j["pre_tokenizer"] = {
            {"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Sideways"}, {"invert", false}};
      },
      "Sideways");
}

TEST(TokenizerDefinition, BrokenFilesAreRefused) {
  const auto refused = [](std::string text, const std::string& message) {
    try {
      Tokenizer::from_json(std::move(text), "t.json");
      ADD_FAILURE() << "not refused: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  };
  const std::string good = small().dump();
  for (size_t size = 0; size < good.size(); size += 7)
    EXPECT_THROW(Tokenizer::from_json(good.substr(0, size), "t.json"), Error) << size;
  refused("", "JSON");
  refused("[1,2]", "an object");
  refused(std::string(100000, '['), "64 levels");
  std::string objects;
  for (int level = 0; level < 200; ++level) objects += "{\"a\":";
  refused(objects, "64 levels");
  refused("{\"model\": \"\xFF\"}", "JSON");
  EXPECT_THROW(Tokenizer::load("/nonexistent/tokenizer.json"), Error);
}

TEST(TokenizerDefinition, IdsWithoutATokenAreRefused) {
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump(), "t.json");
  for (const int32_t id : {-1, 5, 1 << 30}) {
    const std::vector<int32_t> ids{0, id};
    try {
      tokenizer.decode(ids);
      ADD_FAILURE() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.what(), HasSubstr("at position 1"));
    }
  }
}

TEST(TokenizerDefinition, WrongTrainingOptionsAreUsageErrors) {
  const TextSource none = [](std::string&) { return false; };
  for (const TrainOptions& options :
       {TrainOptions{.vocabulary = 256}, TrainOptions{.vocabulary = 1 << 30},
        TrainOptions{.special_tokens = {"<x>", "<x>"}}, TrainOptions{.special_tokens = {""}},
        TrainOptions{.special_tokens = {"a"}}}) {
    try {
      train_bpe(none, options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
    }
  }
  EXPECT_EQ(train_bpe(none, {}).vocabulary(), 257);  // no text: the bytes and the end of document
}

TEST(TokenizerDefinition, SavedIsRead) {
  const auto path = std::filesystem::temp_directory_path() / "longhaul-tokenizer-saved.json";
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump(), "t.json");
  tokenizer.save(path);
  EXPECT_EQ(Tokenizer::load(path).sha256(), tokenizer.sha256());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace longhaul::data
