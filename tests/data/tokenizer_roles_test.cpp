// What begins a text and what ends it: templates, tokens by their role, and the documents that a model is
// trained on. From public reports of models that were given their end token where they know a beginning, and
// of models that never stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/order/masked.h"
#include "data/order/packing.h"
#include "data/support.h"
#include "data/template_tokenizer.h"
#include "data/tokenizer/commands.h"
#include "data/tokenizer/definition.h"

namespace longhaul::data {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TokenRoles, ATemplateBeginsATextAndElseTheEndOfDocument) {
  const Tokenizer llama = bytes_with("</s>", {"<s>"}, {"<s>"});
  EXPECT_THAT(llama.beginning(), ElementsAre(257));
  EXPECT_THAT(llama.encode_prompt("ab"), ElementsAre(257, 'a', 'b'));
  EXPECT_EQ(llama.encode_prompt("ab"), llama.encode("ab", /*add_special=*/true));
  EXPECT_THAT(llama.encode_prompt("<s>ab"), ElementsAre(257, 'a', 'b')) << "who typed it has it once";
  EXPECT_THAT(llama.encode_prompt(""), ElementsAre(257));
  EXPECT_THAT(llama.stop_ids(), ElementsAre(256));

  const Tokenizer plain = Tokenizer::bytes();
  EXPECT_THAT(plain.encode_prompt("a"), ElementsAre(256, 'a'));
  EXPECT_THAT(plain.encode_prompt("<|end_of_document|>a"), ElementsAre(256, 256, 'a')) << "as before";
  const Tokenizer none = bytes_with("<other>", {});
  EXPECT_THAT(none.encode_prompt("a"), ElementsAre('a'));
  EXPECT_THAT(none.encode_prompt(""), IsEmpty());
  EXPECT_THAT(none.stop_ids(), IsEmpty());
}

TEST(TokenRoles, EndsAreTakenByUsualNamesOrByTheirRole) {
  for (const char* name :
       {"<|endoftext|>", "<|end_of_text|>", "</s>", "<｜end▁of▁sentence｜>", "<eos>", "[EOS]"})
    EXPECT_EQ(bytes_with(name, {}).end_of_document(), 256) << name;
  const Tokenizer odd = bytes_with("<over>", {"<|im_end|>", "</s>"});
  EXPECT_EQ(odd.end_of_document(), 258);
  const Tokenizer told = odd.with({.end_of_document = "<over>", .stop = {"<|im_end|>"}});
  EXPECT_EQ(told.end_of_document(), 256);
  EXPECT_THAT(told.stop_ids(), ElementsAre(256, 257));
  EXPECT_THAT(told.encode_prompt("a"), ElementsAre(256, 'a'));
  EXPECT_THAT(told.with({}).stop_ids(), ElementsAre(258)) << "roles are not added up";
  const Error end = error_of([&] { odd.with({.end_of_document = "<none>", .stop = {}}); });
  EXPECT_THAT(end.what(), ::testing::AllOf(HasSubstr("data.end_of_document"), HasSubstr("<none>")));
  EXPECT_THAT(error_of([&] {
                odd.with({.end_of_document = "", .stop = {"</s>", "<no>"}});
              }).what(),
              HasSubstr("data.stop_tokens"));
  EXPECT_THAT(error_of([&] { encoder_of(bytes_with("<over>", {})); }).what(),
              HasSubstr("data.end_of_document="));
}

TEST(TokenRoles, IdsWithoutATokenAreKnown) {
  json definition = json::parse(bytes_with("</s>", {}).definition());
  EXPECT_THAT(Tokenizer::from_json(definition.dump(), "t.json").without_token(), IsEmpty());
  for (const char* name : {"a", "b"}) definition["model"]["vocab"].erase(name);
  EXPECT_THAT(Tokenizer::from_json(definition.dump(), "t.json").without_token(), ElementsAre('a', 'b'));
}

// Saved by whoever called enable_truncation or enable_padding: ids of a text are the same without.
TEST(TokenRoles, TruncationAndPaddingAreReadOver) {
  json definition = json::parse(Tokenizer::bytes().definition());
  EXPECT_THAT(Tokenizer::from_json(definition.dump(), "t.json").not_applied(), IsEmpty());
  definition["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  definition["padding"] = {{"strategy", {{"Fixed", 8}}}, {"pad_id", 0}};
  const Tokenizer tokenizer = Tokenizer::from_json(definition.dump(), "t.json");
  EXPECT_THAT(tokenizer.not_applied(), ElementsAre("truncation", "padding"));
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', 'b', 'c'));
  definition["padding"] = 3;
  EXPECT_THAT(error_of([&] { Tokenizer::from_json(definition.dump(), "t.json"); }).what(),
              HasSubstr("padding"));
}

// Inputs and labels of a document against the ids with the template, which tests/golden/tokenizer_golden.json
// holds to the peer's: the document's end follows unless the template puts it there.
TEST(TokenRoles, DocumentsAreWhatTheTemplateMakesOfThem) {
  struct Case {
    std::vector<std::string> front, back;
    bool ended;
  };
  const std::vector<std::string> more = {"<s>", "<en>", "<x>"};
  for (const auto& [front, back, ended] :
       {Case{{"<s>"}, {}, false}, Case{{"<s>"}, {"</s>"}, true}, Case{{"<s>", "<en>"}, {"<x>", "</s>"}, true},
        Case{{}, {"</s>"}, true}, Case{{}, {}, false}, Case{{"</s>"}, {}, false}}) {
    const Tokenizer tokenizer = bytes_with("</s>", more, front, back);
    const TemporaryFolder folder;
    const std::string text(700, 'a');
    write_file(folder / "text" / "a.txt", text);
    for (const int64_t long_bytes : {int64_t{1} << 20, int64_t{100}}) {  // whole, and in pieces
      const PreparedSource prepared =
          prepare(corpus_of(folder / "text"), 0, encoder_of(tokenizer), folder / std::to_string(long_bytes),
                  {.long_document_bytes = long_bytes});
      ASSERT_EQ(prepared.train.documents(), 1);
      std::vector<int32_t> expected = tokenizer.encode(text, /*add_special=*/true);
      if (front.empty()) expected.insert(expected.begin(), 256);  // as documents begin without a template
      if (!ended) expected.push_back(256);
      std::vector<int64_t> inputs(expected.size() - 1), labels(expected.size() - 1);
      ASSERT_EQ(prepared.train.length(0) + 1, std::ssize(inputs));
      read_span(prepared.train, {0, 0, std::ssize(inputs)}, inputs, labels);
      EXPECT_EQ(inputs, std::vector<int64_t>(expected.begin(), expected.end() - 1));
      EXPECT_EQ(labels, std::vector<int64_t>(expected.begin() + 1, expected.end()));
      EXPECT_EQ(span_bytes(prepared.train, {0, 0, std::ssize(inputs)}), 700);
      // Opened again from the cache, it is the same.
      const PreparedSource again = PreparedSource::open(prepared.folder);
      EXPECT_EQ(again.identity, prepared.identity);
      EXPECT_EQ(again.identity.begin, expected.front());
    }
  }
}

// The folder in the cache is another one where documents begin with another token, and the old one where
// nothing changed.
TEST(TokenRoles, WhatBeginsADocumentDecidesTheCacheFolder) {
  Encoder encoder = byte_encoder();
  EXPECT_EQ(encoder.marks(), "256");
  EXPECT_EQ(encoder.begin_id(), 256);
  encoder.begin = 7;
  EXPECT_NE(encoder.marks(), byte_encoder().marks());
  const TemporaryFolder folder;
  write_documents(folder / "text", 3);
  const Corpus corpus = corpus_of(folder / "text");
  EXPECT_NE(prepare(corpus, 0, encoder, folder / "cache").folder,
            prepare(corpus, 0, byte_encoder(), folder / "cache").folder);
}

TEST(TokenRoles, WhatBeginsADocumentIsNeverMasked) {
  const Masking masking = training_masks(bytes_with("</s>", {"<s>"}, {"<s>"}), 1.0, 0);
  std::vector<int64_t> inputs = {257, 'a', 256, 'b'}, labels(4);
  mask_tokens(masking, 0, inputs, labels);
  EXPECT_THAT(labels, ElementsAre(-1, 'a', -1, 'b'));
}

// An export puts the template there that training had in mind; a definition that has one stays as it is.
TEST(TokenRoles, DefinitionsGetTheBeginningThatTrainingHad) {
  const std::string written = definition_with_beginning(Tokenizer::bytes());
  const Tokenizer read = Tokenizer::from_json(written, "t.json");
  EXPECT_THAT(read.before(), ElementsAre(256));
  EXPECT_THAT(read.encode("ab", true), ElementsAre(256, 'a', 'b'));
  EXPECT_EQ(read.encode_prompt("ab"), Tokenizer::bytes().encode_prompt("ab"));
  EXPECT_EQ(definition_with_beginning(read), written);
  json definition = json::parse(Tokenizer::bytes().definition());
  definition["post_processor"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", false}, {"use_regex", true}};
  const Tokenizer byte_level = Tokenizer::from_json(definition.dump(), "t.json");
  EXPECT_THAT(Tokenizer::from_json(definition_with_beginning(byte_level), "t.json").before(),
              ElementsAre(256));
  const Tokenizer llama = bytes_with("</s>", {"<s>"}, {"<s>"});
  EXPECT_EQ(definition_with_beginning(llama), llama.definition());
}

TEST(TokenIds, AreReadFromABatchOfOne) {
  EXPECT_THAT(read_ids("[[1, 2, 3]]", "ids.json"), ElementsAre(1, 2, 3));
  EXPECT_THAT(read_ids("{\"ids\": [[4]]}", "ids.json"), ElementsAre(4));
  EXPECT_THAT(read_ids("[]", "ids.json"), IsEmpty());
  EXPECT_THAT(read_ids("\xef\xbb\xbf[5]", "ids.json"), ElementsAre(5));
  EXPECT_THAT(error_of([] { read_ids("[[1], [2]]", "ids.json"); }).what(), HasSubstr("2 lists"));
  EXPECT_THAT(read_ids("-1", "ids"), ElementsAre(-1))
      << "whoever decodes it says that there is no such token";
}

}  // namespace
}  // namespace longhaul::data
