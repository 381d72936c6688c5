// The forms of samples that people have, and rows that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "posttrain/chat/chat_sample.h"

namespace longhaul::posttrain {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

ordered_json row(const char* text) { return ordered_json::parse(text); }

ChatSample sample_of(const char* text, const std::string& system = "") {
  const ordered_json parsed = row(text);
  const auto form = form_of(parsed);
  EXPECT_TRUE(form) << text;
  return read_sample(parsed, *form, system);
}

std::string reason_of(const char* text) {
  try {
    sample_of(text);
  } catch (const BadSample& why) {
    return why.reason + " | " + why.expected + " | " + why.found;
  }
  return "";
}

TEST(ChatSample, OfOpenAiKeepsToolsAndReadsArguments) {
  const ChatSample sample = sample_of(R"({"messages": [{"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 2}"}}]},
    {"role": "tool", "content": "4"}, {"role": "assistant", "content": "It is 4."}], "tools": [{"type": "function"}], "weight": 0.5})");
  EXPECT_EQ(sample.messages.size(), 4u);
  EXPECT_EQ(sample.messages[1]["tool_calls"][0]["function"]["arguments"], row(R"({"a": 2})"))
      << "an object, that templates write once";
  EXPECT_EQ(sample.tools.size(), 1u);
  EXPECT_EQ(sample.weight, 0.5);
}

TEST(ChatSample, OfShareGptHasItsRolesNamed) {
  const ChatSample sample =
      sample_of(R"({"id": "x", "system": "Be brief.", "tools": "[{\"name\": \"f\"}]", "conversations": [
    {"from": "human", "value": "Hi"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
    {"from": "observation", "value": "7"}, {"from": "gpt", "value": "Seven"}]})");
  EXPECT_EQ(sample.messages,
            row(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "tool", "content": "7"}, {"role": "assistant", "content": "Seven"}])"));
  EXPECT_EQ(sample.tools, row(R"([{"name": "f"}])"));
}

TEST(ChatSample, OfConversationsMayNameRolesAsOpenAiDoes) {
  EXPECT_EQ(
      sample_of(
          R"({"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})")
          .messages.size(),
      2u);
}

TEST(ChatSample, OfAlpacaJoinsInstructionAndInput) {
  EXPECT_EQ(
      sample_of(R"({"instruction": "Add.", "input": "1 2", "output": "3", "text": "left alone"})").messages,
      row(R"([{"role": "user", "content": "Add.\n\n1 2"}, {"role": "assistant", "content": "3"}])"));
  EXPECT_EQ(
      sample_of(R"({"instruction": "Go on.", "input": "", "output": "b", "history": [["q", "a"]]})").messages,
      row(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                    {"role": "user", "content": "Go on."}, {"role": "assistant", "content": "b"}])"));
}

TEST(ChatSample, OfPromptsAndCompletionsAreTextsOrMessages) {
  const auto expected = row(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])");
  EXPECT_EQ(sample_of(R"({"prompt": "q", "completion": "a"})").messages, expected);
  EXPECT_EQ(
      sample_of(
          R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})")
          .messages,
      expected);
}

TEST(ChatSample, OfAPuzzleIsAnsweredByItsSolution) {
  EXPECT_EQ(
      sample_of(
          R"({"data_source": "sudoku", "prompt": [{"role": "user", "content": "q"}], "solution": "s", "level": 3})")
          .messages,
      row(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "s"}])"));
}

TEST(ChatSample, OfPlainTextHasNoMessages) {
  const ChatSample sample = sample_of(R"({"text": "once"})", "a system");
  EXPECT_TRUE(sample.plain());
  EXPECT_EQ(sample.text, "once");
}

TEST(ChatSample, GetsTheSystemsTextWhereItHasNone) {
  const char* without = R"({"prompt": "q", "completion": "a"})";
  const char* with =
      R"({"messages": [{"role": "system", "content": "own"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})";
  EXPECT_EQ(sample_of(without, "given").messages[0]["content"], "given");
  EXPECT_EQ(sample_of(with, "given").messages[0]["content"], "own");
  EXPECT_EQ(sample_of(with, "given").messages.size(), 3u);
}

TEST(ChatSample, OfNoKnownFormHasNone) {
  EXPECT_FALSE(form_of(row(R"({"question": "q", "answer": "a"})")));
  EXPECT_FALSE(form_of(row(R"({"text": 3})")));
  EXPECT_FALSE(form_of(row("[1]")));
  EXPECT_EQ(fields_text(row(R"({"question": "q", "answer": "a"})")), "question, answer");
}

TEST(BadSamples, AreRefusedWithTheReason) {
  const auto messages = [](const std::string& list) {
    return reason_of(("{\"messages\": [" + list + "]}").c_str());
  };
  const std::string user = R"({"role": "user", "content": "q"})",
                    answer = R"({"role": "assistant", "content": "a"})";
  EXPECT_EQ(messages(user + "," + answer), "");
  EXPECT_THAT(messages(user), HasSubstr("ends without an answer"));
  EXPECT_THAT(messages(user + "," + answer + "," + user), HasSubstr("ends without an answer"));
  EXPECT_THAT(messages(""), HasSubstr("a message cannot be read"));
  EXPECT_THAT(
      messages(answer),
      HasSubstr(
          "roles are out of order | system or developer or user as message 1, after nothing | assistant"));
  EXPECT_THAT(messages(user + "," + user + "," + answer),
              HasSubstr("roles are out of order | assistant as message 2, after user | user"));
  EXPECT_THAT(messages(user + "," + answer + "," + answer), HasSubstr("roles are out of order"));
  EXPECT_THAT(
      messages(user + "," + answer + R"(, {"role": "system", "content": "s"},)" + user + "," + answer),
      HasSubstr("out of order"));
  EXPECT_THAT(messages(user + R"(, {"role": "tool", "content": "4"},)" + answer), HasSubstr("out of order"));
  EXPECT_THAT(messages(user + R"(, {"role": "assistant", "content": " \n"})"),
              HasSubstr("an answer is empty"));
  EXPECT_THAT(messages(user + R"(, {"role": "assistant", "content": 3})"),
              HasSubstr("a message cannot be read | messages[1].content"));
  EXPECT_THAT(
      messages(user + R"(, {"role": "assistant", "content": [{"type": "image_url", "image_url": "x"}]})"),
      HasSubstr("an answer is not text"));
}

TEST(BadSamples, OfOtherFormsToo) {
  EXPECT_THAT(reason_of(R"({"conversations": [{"from": "robot", "value": "x"}]})"),
              HasSubstr("a role is unknown"));
  EXPECT_THAT(reason_of(R"({"conversations": [{"from": "human"}]})"), HasSubstr("a field is missing"));
  EXPECT_THAT(reason_of(R"({"instruction": "i", "output": 3})"),
              HasSubstr("a field is not text | a text \"output\" | number (3)"));
  EXPECT_THAT(reason_of(R"({"prompt": "q", "completion": ""})"), HasSubstr("an answer is empty"));
  EXPECT_THAT(reason_of(R"({"text": ""})"), HasSubstr("a text is empty"));
  EXPECT_THAT(reason_of(R"({"text": "a", "weight": -1})"), HasSubstr("a weight is no weight"));
  EXPECT_THAT(reason_of(R"({"text": "a", "weight": "1"})"), HasSubstr("a weight is no weight"));
  EXPECT_THAT(reason_of(R"({"text": "a", "weight": 1e300})"), HasSubstr("a weight is no weight"));
  EXPECT_THAT(
      reason_of(
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "tools": "{"})"),
      HasSubstr("tools cannot be read"));
}

TEST(BadSamples, AreRowsOfAnotherFormThanTheirFile) {
  EXPECT_THROW(read_sample(row(R"({"text": "a"})"), SampleForm::kMessages, ""), BadSample);
}

}  // namespace
}  // namespace longhaul::posttrain
