// Tokenizers with more entries than a model has rows. From a public model whose padding token was added above
// its rows.
#include "data/tokens/row_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/support.h"
#include "data/template_tokenizer.h"

namespace longhaul::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const Tokenizer& tokenizer, int64_t rows) {
  return error_of([&] { require_rows(tokenizer, rows, "here", "type this"); }).what();
}

TEST(RowCheck, ATokenOfNoTextMayBeWithoutARow) {
  const Tokenizer padded = bytes_with("</s>", {"<s>", "<pad>", "<more>"}, {"<s>"});
  EXPECT_EQ(require_rows(padded, 260, "", ""), 0);
  EXPECT_EQ(require_rows(padded, 259, "", ""), 1);
  EXPECT_EQ(require_rows(padded, 258, "", ""), 2);
  EXPECT_EQ(role_without_row(padded, 258), std::nullopt);
}

TEST(RowCheck, WhatIsInEveryTextNeedsItsRow) {
  const Tokenizer begins = bytes_with("</s>", {"<other>", "<s>"}, {"<s>"});
  EXPECT_EQ(role_without_row(begins, 258), 258);
  EXPECT_THAT(refusal(begins, 258),
              AllOf(HasSubstr("259, and <s> is token 258"), HasSubstr("here"), HasSubstr("type this")));
  const Tokenizer ends = bytes_with("</s>", {"<other>", "<end>"}, {}, {"<end>"});
  EXPECT_EQ(role_without_row(ends, 258), 258);
  EXPECT_EQ(role_without_row(ends, 259), std::nullopt);
  EXPECT_THAT(refusal(Tokenizer::bytes(), 256),
              AllOf(HasSubstr("at most 256"), HasSubstr("<|end_of_document|> is token 256")));
  EXPECT_EQ(role_without_row(begins.with({.end_of_document = "<s>", .stop = {}}), 258), 258);
}

// Shifted by a thousand: the ids of "abc" are 1097, 1098 and 1099, and 1256 stands between documents.
TEST(RowCheck, DataAreReadToTheirLastToken) {
  const TemporaryFolder folder;
  write_file(folder / "text" / "0.txt", std::string(70'000, 'a'));
  write_file(folder / "text" / "1.txt", std::string(70'000, 'b') + "c");
  const PreparedSource prepared =
      prepare(corpus_of(folder / "text"), 0, byte_encoder(1000), folder / "cache");
  EXPECT_NO_THROW(require_ids_below(prepared.train, 1257, ""));
  const auto refused_below = [&](int64_t rows) {
    return std::string(error_of([&] { require_ids_below(prepared.train, rows, "type this"); }).what());
  };
  EXPECT_THAT(refused_below(1256), HasSubstr("id 1256 as the token between documents"));

  Encoder low = byte_encoder();
  low.separator = 0;
  low.sha256 = sha256_hex("a low separator");
  const PreparedSource bytes = prepare(corpus_of(folder / "text"), 0, low, folder / "cache");
  EXPECT_NO_THROW(require_ids_below(bytes.train, 'c' + 1, ""));
  const std::string last = error_of([&] { require_ids_below(bytes.train, 'c', "type this"); }).what();
  EXPECT_THAT(last, AllOf(HasSubstr("ids from 0 to 98"), HasSubstr("id 99 as token 70001 of document 2"),
                          HasSubstr("type this")));
}

}  // namespace
}  // namespace longhaul::data
