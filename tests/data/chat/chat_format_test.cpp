// Where a model's chat template and its special tokens come from, and what a client's messages must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "data/chat/chat_format.h"
#include "data/chat/conversation.h"
#include "data/support.h"
#include "data/template_tokenizer.h"
#include "support/places.h"

namespace longhaul::data::chat {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ChatFormats : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((folder() / name).parent_path());
    write_text_atomically(folder() / name, text);
  }
  const fs::path& folder() const { return folder_.path(); }
  static std::string said(const ChatFormat& format, const ordered_json& tools = nullptr) {
    return format.render({.messages = {{{"role", "user"}, {"content", "q"}}}, .tools = tools}).text.bytes();
  }
  TemporaryFolder folder_;
};

TEST_F(ChatFormats, TheFileWinsThenTheTokenizersFieldThenTheOldFile) {
  EXPECT_FALSE(ChatFormat::of_folder(folder()).has_value());
  put("chat_template.json", R"({"chat_template": "old {{ messages[0].content }}"})");
  EXPECT_EQ(said(*ChatFormat::of_folder(folder())), "old q");
  put("tokenizer_config.json",
      R"({"chat_template": "field {{ bos_token }}{{ pad_token is defined }}", "bos_token": {"content": "<s>"}, "pad_token": null})");
  EXPECT_EQ(said(*ChatFormat::of_folder(folder())), "field <s>False");
  put("chat_template.jinja", "file {{ bos_token }}{{ eos_token }}\n");
  put("special_tokens_map.json", R"({"eos_token": "</s>", "bos_token": "not this one"})");
  EXPECT_EQ(said(*ChatFormat::of_folder(folder())), "file <s></s>");
}

TEST_F(ChatFormats, NamedTemplatesAreChosenByTools) {
  put("tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools {{ tools | length }}"}]})");
  const ChatFormat format = *ChatFormat::of_folder(folder());
  EXPECT_EQ(said(format), "plain");
  EXPECT_EQ(said(format, ordered_json::array({{{"type", "function"}}})), "tools 1");
  put("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_THAT(error_of([&] { ChatFormat::of_folder(folder()); }).what(),
              AllOf(HasSubstr("default"), HasSubstr("tokenizer_config.json")));
  put("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(error_of([&] { ChatFormat::of_folder(folder()); }).what(), HasSubstr("number"));
  put("tokenizer_config.json", "{");
  EXPECT_THAT(error_of([&] { ChatFormat::of_folder(folder()); }).what(), HasSubstr("JSON"));
  put("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_THAT(error_of([&] { ChatFormat::of_folder(folder()); }).what(),
              HasSubstr("tokenizer_config.json#chat_template:1"));
}

TEST_F(ChatFormats, ARunsOwnTemplateComesBeforeThatOfItsImport) {
  EXPECT_FALSE(ChatFormat::of_run(folder()).has_value());
  put("published/chat_template.jinja", "imported {{ eos_token }}");
  put("published/tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(said(*ChatFormat::of_run(folder())), "imported </s>");
  put("chat_template.jinja", "own {{ eos_token }}");
  EXPECT_EQ(said(*ChatFormat::of_run(folder())), "own </s>");
  put("mine.jinja", "mine {{ eos_token }}");
  EXPECT_EQ(said(ChatFormat::of_file(folder() / "mine.jinja", folder())), "mine </s>");
}

TEST_F(ChatFormats, TheExampleIsChatMl) {
  const ChatFormat format =
      ChatFormat::of_file(fs::path(source_folder()) / "docs" / "examples" / "chatml.jinja", folder());
  const RenderedChat chat = format.render({.messages = {{{"role", "system"}, {"content", "be"}},
                                                        {{"role", "user"}, {"content", "q"}},
                                                        {{"role", "assistant"}, {"content", "a"}}}});
  EXPECT_EQ(chat.text.bytes(),
            "<|im_start|>system\nbe<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_"
            "end|>\n<|im_start|>assistant\n");
  ASSERT_EQ(chat.written.size(), 1U);
  EXPECT_EQ(chat.text.bytes().substr(chat.written[0].begin, chat.written[0].end - chat.written[0].begin),
            "a<|im_end|>");
  const Tokenizer tokenizer = bytes_with("<|endoftext|>", {"<|im_start|>", "<|im_end|>"});
  EXPECT_EQ(format.end_of_turn(tokenizer), 258);
  EXPECT_EQ(format.end_of_turn(bytes_with("</s>", {})), std::nullopt);
}

TEST(Conversations, KeepWhatIsText) {
  EXPECT_EQ(as_utf8("a\xff\xc3ü\xe2\x82"), "a\uFFFD\uFFFDü\uFFFD\uFFFD");
  Conversation talk("be");
  talk.add("user", "q");
  talk.add("assistant", "a");
  talk.add("user", "again");
  TemporaryFolder folder;
  talk.save(folder / "talk.json");
  EXPECT_EQ(Conversation::load(folder / "talk.json").messages(), talk.messages());
  talk.take_back_turn();
  EXPECT_EQ(talk.messages().size(), 3U);
  talk.take_back_turn();
  EXPECT_EQ(talk.messages().size(), 1U);
  talk.take_back_turn();
  talk.set_system("");
  EXPECT_TRUE(talk.messages().empty());
}

TEST(CheckMessages, SayWhichMessageIsWrong) {
  const auto check = [](const ordered_json& messages) {
    return error_of([&] { check_messages(messages, "messages"); });
  };
  check_messages({{{"role", "user"}, {"content", "x"}},
                  {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", ordered_json::array()}}},
                 "m");
  check_messages(
      {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "x"}}, {{"type", "image_url"}}}}}}, "m");
  EXPECT_EQ(check(ordered_json::array()).fields().found, "an empty list");
  EXPECT_EQ(check("x").code(), ExitCode::kUsage);
  EXPECT_EQ(check({1}).fields().where, "messages[0]");
  EXPECT_EQ(check({{{"role", "user"}, {"content", "x"}}, {{"content", "x"}}}).fields().where,
            "messages[1].role");
  EXPECT_EQ(check({{{"role", "a|>"}, {"content", "x"}}}).fields().found, "a|>");
  EXPECT_EQ(check({{{"role", std::string(65, 'a')}, {"content", "x"}}}).fields().where, "messages[0].role");
  EXPECT_EQ(check({{{"role", "user"}}}).fields().where, "messages[0].content");
  EXPECT_EQ(check({{{"role", "user"}, {"content", 5}}}).fields().where, "messages[0].content");
  EXPECT_EQ(check({{{"role", "user"}, {"content", {{{"type", "text"}}}}}}).fields().where,
            "messages[0].content[0]");
}

}  // namespace
}  // namespace longhaul::data::chat
