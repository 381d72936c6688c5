// Pieces of one text as its tokens come: what is held back for a stop string, and what becomes of it.
#include "serve/choice_writer.h"

#include <gtest/gtest.h>

namespace longhaul::serve {
namespace {

class ChoiceWriterTest : public ::testing::Test {
 protected:
  ChoiceWriterTest() { options_.stop = {"xyz"}; }
  // The pieces of these bytes, a token each; a stop string ends them.
  std::vector<std::string> pieces(const std::string& bytes) {
    const data::Tokenizer tokenizer = data::Tokenizer::bytes();
    ChoiceWriter writer(tokenizer, {65}, options_, 0);
    std::vector<std::string> found;
    for (const char byte : bytes) {
      const bool goes_on = writer.add({.id = static_cast<unsigned char>(byte)});
      if (writer.has_piece()) found.push_back(writer.take_piece().text);
      if (!goes_on) break;
    }
    const openai::Choice last = writer.end({});
    found.push_back(last.text);
    reason_ = last.finish_reason;
    return found;
  }
  openai::TextOptions options_;
  std::string reason_;
};

TEST_F(ChoiceWriterTest, TheBeginningOfAStopStringIsHeldBackAndComesWithTheEnd) {
  EXPECT_EQ(pieces("axy"), (std::vector<std::string>{"a", "xy"}));
  EXPECT_EQ(reason_, "length");
}

TEST_F(ChoiceWriterTest, WhatWasHeldBackComesWhenItIsNoStopString) {
  EXPECT_EQ(pieces("axyb"), (std::vector<std::string>{"a", "xyb", ""}));
}

TEST_F(ChoiceWriterTest, AStopStringEndsTheTextAndIsNoPartOfIt) {
  EXPECT_EQ(pieces("axyzb"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(reason_, "stop");
}

// Calls have numbers of their own through all pieces, and the text between them is no part of the answer.
TEST_F(ChoiceWriterTest, CallsAreCountedThroughThePieces) {
  const data::Tokenizer tokenizer = data::Tokenizer::bytes();
  ChoiceWriter writer(tokenizer, {65}, options_, 0, openai::ToolForm::kTagged);
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  std::vector<std::pair<int64_t, size_t>> numbers;  // of the first call of a piece, and how many it has
  std::string text;
  const auto take = [&](const openai::Choice& piece) {
    text += piece.text;
    if (!piece.calls.empty()) numbers.emplace_back(piece.first_call, piece.calls.size());
  };
  for (const char byte : "Well. " + call + "\n" + call) {
    writer.add({.id = static_cast<unsigned char>(byte)});
    if (writer.has_piece()) take(writer.take_piece());
  }
  const openai::Choice last = writer.end({.finish = generate::Finish::kStop});
  take(last);
  EXPECT_EQ(numbers, (std::vector<std::pair<int64_t, size_t>>{{0, 1}, {1, 1}}));
  EXPECT_EQ(text, "Well.");
  EXPECT_EQ(last.finish_reason, "tool_calls");
}

}  // namespace
}  // namespace longhaul::serve
