// Calls of tools in texts: whole texts, and the same texts cut at every place.
#include "openai/tools/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace longhaul::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Read {
  std::string text;
  std::vector<ToolCall> calls;
  bool operator==(const Read&) const = default;
};

Read read_in_parts(ToolForm form, const std::vector<std::string>& parts) {
  ToolCallReader reader(form);
  Read all;
  const auto take = [&](const ToolCallReader::Part& part) {
    all.text += part.text;
    all.calls.insert(all.calls.end(), part.calls.begin(), part.calls.end());
  };
  for (const std::string& part : parts) take(reader.add(part));
  take(reader.end());
  EXPECT_EQ(reader.has_calls(), !all.calls.empty());
  return all;
}

// The same however the text is cut: whole, byte by byte, and in two at every place.
Read read(ToolForm form, const std::string& text) {
  const Read whole = read_in_parts(form, {text});
  std::vector<std::string> bytes;
  for (const char byte : text) bytes.emplace_back(1, byte);
  EXPECT_EQ(read_in_parts(form, bytes), whole) << text;
  for (size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(read_in_parts(form, {text.substr(0, cut), text.substr(cut)}), whole) << cut << " of " << text;
  return whole;
}

TEST(ToolCallReaderTest, Tagged) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, 2]}}\n</tool_call>";
  const ToolCall f{"f", R"({"x":[1,2]})"};
  EXPECT_EQ(read(ToolForm::kTagged, call), (Read{"", {f}}));
  EXPECT_EQ(read(ToolForm::kTagged, "I look it up.\n" + call + "\n" + call), (Read{"I look it up.", {f, f}}));
  EXPECT_EQ(read(ToolForm::kTagged, "\n\n" + call + "\n"), (Read{"", {f}}));
  EXPECT_EQ(read(ToolForm::kTagged, "a <tool b < c"), (Read{"a <tool b < c", {}}));
  EXPECT_EQ(read(ToolForm::kTagged, "  no call \n"), (Read{"  no call \n", {}}));
  // The end token stood in for the closing tag.
  EXPECT_EQ(read(ToolForm::kTagged, call.substr(0, call.size() - 13)), (Read{"", {f}}));
}

TEST(ToolCallReaderTest, WhatCannotBeReadStaysText) {
  for (const std::string text :
       {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}", "<tool_call>nonsense</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call> b",
        "<tool_call>{\"name\": \"f\"}</tool_call>"})
    EXPECT_EQ(read(ToolForm::kTagged, text), (Read{text, {}})) << text;
}

TEST(ToolCallReaderTest, Listed) {
  const std::string list =
      "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}}, {\"name\": \"g\", \"arguments\": {}}]";
  EXPECT_THAT(read(ToolForm::kListed, list).calls,
              ElementsAre(ToolCall{"f", R"({"x":1})"}, ToolCall{"g", "{}"}));
  EXPECT_EQ(read(ToolForm::kListed, "Well: " + list).text, "Well:");
  EXPECT_EQ(read(ToolForm::kListed, "[TOOL_CALLS]f[ARGS]{\"x\": 1}"), (Read{"", {{"f", "{\"x\": 1}"}}}));
  EXPECT_EQ(read(ToolForm::kListed, "[TOOL_CALLS] nothing"), (Read{"[TOOL_CALLS] nothing", {}}));
  EXPECT_EQ(read(ToolForm::kListed, "a list [TOOL] of"), (Read{"a list [TOOL] of", {}}));
}

TEST(ToolCallReaderTest, Bare) {
  EXPECT_EQ(read(ToolForm::kBare, R"({"name": "f", "parameters": {"x": 1}})"),
            (Read{"", {{"f", R"({"x":1})"}}}));
  EXPECT_EQ(read(ToolForm::kBare, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}").calls.size(), 1U);
  EXPECT_EQ(read(ToolForm::kBare, "{not JSON}"), (Read{"{not JSON}", {}}));
  EXPECT_EQ(read(ToolForm::kBare, R"(It is {"name": "f", "parameters": {}})").calls.size(), 0U);
  EXPECT_EQ(read(ToolForm::kBare, R"({"name": "f", "arguments": "{\"a\": 2}"})").calls[0].arguments,
            R"({"a": 2})");
}

TEST(ToolCallReaderTest, WithoutAFormEverythingIsText) {
  EXPECT_EQ(read(ToolForm::kNone, " <tool_call>{}</tool_call> ").text, " <tool_call>{}</tool_call> ");
}

// Plain text is not held back until the end.
TEST(ToolCallReaderTest, TextGoesOutAsItComes) {
  for (const ToolForm form : {ToolForm::kTagged, ToolForm::kListed, ToolForm::kBare}) {
    ToolCallReader reader(form);
    EXPECT_EQ(reader.add("Hello").text, "Hello");
    EXPECT_EQ(reader.add(" wor").text, " wor");
  }
}

ToolForm form_of(const std::string& source) {
  return tool_form_of(
      data::chat::ChatFormat::of_text(source, "a test", std::filesystem::temp_directory_path() / "none"));
}

constexpr const char* kEach =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}";

TEST(ToolFormOf, IsHowACallIsRendered) {
  const std::string end = "{% endfor %}{% endfor %}";
  EXPECT_EQ(form_of(std::string(kEach) +
                    "<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
                    "{{ c.function.arguments | tojson }}}\n</tool_call>" +
                    end),
            ToolForm::kTagged);
  EXPECT_EQ(form_of(std::string(kEach) + "[TOOL_CALLS] [{{ c.function | tojson }}]" + end),
            ToolForm::kListed);
  EXPECT_EQ(form_of(std::string(kEach) +
                    "{\"name\": \"{{ c.function.name }}\", \"parameters\": "
                    "{{ c.function.arguments | tojson }}}" +
                    end),
            ToolForm::kBare);
  EXPECT_EQ(form_of("{% for m in messages %}{{ m.content }}{% endfor %}"), ToolForm::kNone);
  EXPECT_EQ(form_of("{{ raise_exception('no tools') }}"), ToolForm::kNone);
  // Qwen3-Coder's: names and values in tags of their own.
  EXPECT_EQ(form_of(std::string(kEach) +
                    "<tool_call>\n<function={{ c.function.name }}>{% for k, v in "
                    "c.function.arguments.items() %}<parameter={{ k }}>{{ v }}{% endfor %}" +
                    end),
            ToolForm::kNone);
}

TEST(OpenArguments, TextsOfObjectsBecomeObjects) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::parse(
      R"([{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
           "function": {"name": "f", "arguments": "{\"x\": 1}"}}, {"function": {"name": "g", "arguments": "broken"}}]},
          {"role": "tool", "content": "3"}, 7])");
  open_arguments(messages);
  EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(messages[0]["tool_calls"][1]["function"]["arguments"], "broken");
  EXPECT_EQ(messages[2], 7);
}

}  // namespace
}  // namespace longhaul::openai
