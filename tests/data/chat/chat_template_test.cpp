// Chat templates beside transformers (tests/golden/make_chat_golden.py), their limits, and errors that say
// where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "data/chat/chat_template.h"
#include "data/support.h"
#include "support/places.h"

namespace longhaul::data::chat {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const ordered_json& chat_golden() {
  static const ordered_json json =
      ordered_json::parse(read_text(source_folder() + "/tests/golden/chat_golden.json"));
  return json;
}

// Thursday, 9 July 2026, 15:04:05, as in the script.
std::tm golden_now() {
  return {.tm_sec = 5,
          .tm_min = 4,
          .tm_hour = 15,
          .tm_mday = 9,
          .tm_mon = 6,
          .tm_year = 126,
          .tm_wday = 4,
          .tm_yday = 189};
}

ChatInput golden_input(const ordered_json& item) {
  ChatInput input{.messages = item.at("messages")};
  if (item.contains("tools")) input.tools = item["tools"];
  if (item.contains("documents")) input.documents = item["documents"];
  if (item.contains("variables")) input.variables = item["variables"];
  input.add_generation_prompt = item.value("add_generation_prompt", false);
  input.continue_final_message = item.value("continue_final_message", false);
  input.special_tokens = item.at("special_tokens").get<std::map<std::string, std::string>>();
  input.now = golden_now();
  return input;
}

ordered_json written_of(const RenderedChat& chat) {
  ordered_json ranges = ordered_json::array();
  for (const ByteRange& range : chat.written) ranges.push_back({range.begin, range.end});
  return ranges;
}

std::string rendered(const std::string& source, ChatInput input = {}) {
  return ChatTemplate::parse(source, "t.jinja").render(input).text.bytes();
}

TEST(ChatTemplate, RendersWhatTransformersRenders) {
  ASSERT_THAT(chat_golden().at("made_by").get<std::string>(), HasSubstr("transformers 5."));
  ASSERT_GE(chat_golden().at("cases").size(), 110u);
  size_t ranges = 0;
  for (const ordered_json& item : chat_golden().at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    const std::string name = item.at("template").get<std::string>();
    const auto render = [&] {
      return ChatTemplate::parse(chat_golden().at("templates").at(name).get<std::string>(), name)
          .render(golden_input(item));
    };
    if (item.contains("error")) {
      const Error error = error_of([&] { render(); });
      EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
      continue;
    }
    const RenderedChat chat = render();
    EXPECT_EQ(chat.text.bytes(), item.at("text").get<std::string>());
    if (!item.contains("written")) continue;
    EXPECT_EQ(written_of(chat), item["written"]);
    ranges += chat.written.size();
  }
  EXPECT_GE(ranges, 8u);
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  for (const auto& [source, line, text] : std::vector<std::tuple<std::string, int, std::string>>{
           {"a\n\n{{ messages[0].x.y }}", 3, "'x' of a dict is undefined, so it has no attribute 'y'"},
           {"{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ m() }}", 2, "division by zero"},
           {"\n{% if true %}\nx", 3, "endif"},
           {"{{ 'a' | shuffled }}", 1, "no filter 'shuffled'"},
           {"{{ 'a' is odder }}", 1, "no test 'odder'"},
           {"\n{% include 'x' %}", 2, "no statement 'include'"},
           {"{{ [].append(1) }}", 1, "list + [item]"},
           {"{{ ''.__class__ }}", 1, "'__class__' is not for templates"},
           {"{{ 1 }} {{ 'x }}", 1, "no closing '"},
           {"{% raw %} x", 1, "endraw"},
           {"{# x", 1, "comment"},
           {"{{ 9223372036854775807 + 1 }}", 1, "64 bits"},
           {"{{ 99999999999999999999 }}", 1, "too large"},
           {"{% set ns = 1 %}{% set ns.x = 2 %}", 1, "no namespace"},
           {"{{ {'a': [1]} | tojson(indent=2000) }}", 1, "1000 blanks"},
           {"{% break %}", 1, "outside of any loop"},
           {"{{ range(200000) | length }}", 1, "100000 numbers"},
           {"{{ '\\ud800' }}", 1, "names no character"},
           {"\xff", 1, "not UTF-8"}}) {
    const Error error = error_of([&] {
      rendered(source, {.messages = {{{"role", "user"}, {"content", "x"}}}});
    });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_EQ(error.fields().where, "t.jinja:" + std::to_string(line)) << source;
    EXPECT_THAT(error.fields().found, HasSubstr(text)) << source;
  }
}

TEST(ChatTemplate, ARefusalIsToldFromAMistake) {
  const ChatTemplate refuses =
      ChatTemplate::parse("\n{{ raise_exception('roles must alternate') }}", "t.jinja");
  try {
    refuses.render({});
    FAIL() << "it refuses every conversation";
  } catch (const ChatRefused& refused) {
    EXPECT_EQ(refused.fields().found, "roles must alternate");
    EXPECT_EQ(refused.fields().where, "t.jinja:2");
  }
  EXPECT_THROW(rendered("{{ 1 + 'a' }}"), Error);
  EXPECT_THAT([&] { rendered("{{ 1 + 'a' }}"); }, ::testing::Not(::testing::Throws<ChatRefused>()));
}

TEST(ChatTemplate, NothingRunsForever) {
  TemplateLimits limits;  // smaller than the usual ones, so that all is over in a moment
  EXPECT_EQ(limits.steps, 10'000'000);
  limits.steps = 200'000;
  limits.text_bytes = 32 << 20;
  limits.output_bytes = 4 << 20;
  const auto render = [&](const std::string& source) {
    ChatTemplate::parse(source, "t.jinja", limits).render({});
  };
  for (const auto& [source, text] : std::vector<std::pair<std::string, std::string>>{
           {"{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "levels deep"},
           {"{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "levels deep"},
           {"{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}", "steps"},
           {"{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor "
            "%}",
            "bytes"},
           {"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor "
            "%}",
            "steps"},
           {"{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
            "nested more than"},
           {"{% set ns = namespace() %}{% for i in range(1000) %}{% set ns.x = ns %}{% endfor %}",
            "nested more than"},
           {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
            "%}{{ ns.x | tojson }}",
            ""},
           {"{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor "
            "%}{{ ns.x == [ns.x] }}{{ ns.x }}",
            ""},
           {"{{ 'a' * 1000000000000 }}", "bytes"},
           {"{{ [1] * 1000000000000 }}", "steps"},
           {"{{ ('a' * 3000000).replace('', 'b' * 1000) }}", "bytes"},
           {"{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}", ""},
           {"{{ 'a\\nb\\nc' | indent('b' * 3000000) }}", ""},
           {"{{ [1] | tojson(indent='b' * 3000000) | length }}{{ [[[1]]] | tojson(indent='b' * 3000000) }}",
            ""}}) {
    const Error error = error_of([&, code = source] { render(code); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.fields().found, HasSubstr(text)) << source;
  }
  const std::string deep = std::string(20'000, '(') + "1" + std::string(20'000, ')');
  EXPECT_THAT(error_of([&] { render("{{ " + deep + " }}"); }).fields().found, HasSubstr("nested more than"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 20'000; ++i) sum += "+1";
  EXPECT_THAT(error_of([&] { render(sum + " }}"); }).fields().found, HasSubstr("nested more than"));
  std::string blocks;
  for (int i = 0; i < 20'000; ++i) blocks += "{% if 1 %}";
  EXPECT_THAT(error_of([&] { render(blocks); }).fields().found, HasSubstr("nested more than"));
}

TEST(ChatTemplate, ConversationsAreCheckedToo) {
  ordered_json nested = 1;
  for (int i = 0; i < 1000; ++i) nested = ordered_json::array({nested});
  EXPECT_THAT(error_of([&] {
                rendered("", {.messages = {{{"role", "user"}, {"content", nested}}}});
              }).what(),
              HasSubstr("nested"));
  EXPECT_THAT(error_of([&] { rendered("", {.messages = "text"}); }).what(), HasSubstr("list of objects"));
  EXPECT_THAT(error_of([&] { rendered("", {.messages = {1}}); }).what(), HasSubstr("message 0"));
  EXPECT_THAT(error_of([&] { rendered("", {.messages = {{{"role", "\xc3"}}}}); }).what(), HasSubstr("UTF-8"));
  EXPECT_THAT(
      error_of([&] {
        rendered("x", {.messages = {{{"role", "user"}, {"content", "y"}}}, .continue_final_message = true});
      }).what(),
      HasSubstr("does not write its content"));
  EXPECT_EQ(rendered("{{ eos_token }}{{ x }}", {.variables = {{"x", 1}, {"eos_token", "own"}},
                                                .special_tokens = {{"eos_token", "</s>"}}}),
            "own1");
}

TEST(ChatTemplate, MarksOutliveWhatTheTemplateDoesWithATextTheAssistantWrote) {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% macro turn(m) %}[{% generation %} {{ m.content }} {% endgeneration %}]{% endmacro %}"
      "{% for m in messages %}{% set out %}{{ turn(m) }}{% endset %}{{ out | replace('[', '<<') | trim }}{% "
      "endfor %}",
      "t");
  EXPECT_TRUE(chat.marks_generation());
  const RenderedChat rendered_chat =
      chat.render({.messages = {{{"role", "a"}, {"content", "x"}}, {{"role", "a"}, {"content", ""}}}});
  EXPECT_EQ(rendered_chat.text.bytes(), "<< x ]<<  ]");
  EXPECT_THAT(rendered_chat.written, ::testing::ElementsAre(ByteRange{2, 5}, ByteRange{8, 10}));
}

}  // namespace
}  // namespace longhaul::data::chat
