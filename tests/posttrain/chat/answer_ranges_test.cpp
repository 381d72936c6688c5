// Which part of a conversation is learnt: expected texts are written by hand from the templates below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "data/template_tokenizer.h"
#include "posttrain/chat/answer_ranges.h"
#include "posttrain/chat/chat_options.h"
#include "support/places.h"

namespace longhaul::posttrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Without {% generation %}.
constexpr const char* kPlainTemplate =
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content | trim }}<|end|>\n{% endfor %}{% if "
    "add_generation_prompt %}<|start|>assistant\n{% endif %}";

class AnswerRanges : public ::testing::Test {
 protected:
  data::chat::ChatFormat format(const std::string& source) const {
    write_text_atomically(folder_ / "t.jinja", source);
    return data::chat::ChatFormat::of_file(folder_ / "t.jinja", folder_.path());
  }
  static ChatSample talk(const std::vector<std::string>& texts) {
    ChatSample sample;
    for (size_t i = 0; i < texts.size(); ++i)
      sample.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", texts[i]}});
    return sample;
  }
  // The texts that are learnt.
  std::vector<std::string> learnt(const std::string& source, const ChatSample& sample,
                                  LearntPart part = LearntPart::kAnswers) const {
    const data::chat::ChatFormat written_by = format(source);
    const data::chat::RenderedChat chat = render_learnt(sample, {written_by, tokenizer_, part});
    std::vector<std::string> texts;
    for (const data::chat::ByteRange& range : chat.written)
      texts.push_back(chat.text.bytes().substr(range.begin, range.end - range.begin));
    return texts;
  }
  std::string reason(const std::string& source, const ChatSample& sample,
                     LearntPart part = LearntPart::kAnswers) const {
    try {
      learnt(source, sample, part);
    } catch (const BadSample& why) {
      return why.reason + " | " + why.expected + " | " + why.found;
    }
    return "";
  }
  TemporaryFolder folder_;
  data::Tokenizer tokenizer_ = data::bytes_with("<|eod|>", {"<|start|>", "<|end|>"});
};

TEST_F(AnswerRanges, AreFoundByRenderingBeginnings) {
  EXPECT_THAT(learnt(kPlainTemplate, talk({"q", " one ", "r", "two"})),
              ElementsAre("one<|end|>", "two<|end|>"))
      << "the end of the turn counts, and the line end behind it does not";
  EXPECT_THAT(learnt(kPlainTemplate, talk({"q", "one", "r", "two"}), LearntPart::kLastAnswer),
              ElementsAre("two<|end|>"));
  EXPECT_THAT(learnt(kPlainTemplate, talk({"q", "one"}), LearntPart::kAll),
              ElementsAre("<|start|>user\nq<|end|>\n<|start|>assistant\none<|end|>\n"));
}

TEST_F(AnswerRanges, AreThoseOfGenerationBlocksWhereThereAreAny) {
  const std::string chatml(built_in_template("chatml"));
  const data::Tokenizer tokenizer = data::bytes_with("<|eod|>", {"<|im_start|>", "<|im_end|>"});
  const data::chat::ChatFormat written_by = format(chatml);
  const auto chat =
      render_learnt(talk({"q", "one", "r", "two"}), {written_by, tokenizer, LearntPart::kLastAnswer});
  ASSERT_EQ(chat.written.size(), 1u);
  EXPECT_EQ(chat.text.bytes().substr(chat.written[0].begin, chat.written[0].end - chat.written[0].begin),
            "two<|im_end|>");
  EXPECT_THAT(learnt(chatml, talk({"q", "one", "r", "two"})), ElementsAre("one<|im_end|>", "two<|im_end|>"));
}

TEST_F(AnswerRanges, TheBuiltInTemplateIsTheOneOfTheExamples) {
  std::string example = read_text(std::filesystem::path(source_folder()) / "docs/examples/chatml.jinja");
  example.erase(0, example.find("{%- for"));
  EXPECT_EQ(built_in_template("chatml"), example);
}

TEST_F(AnswerRanges, ASpecialTokenThatAnAnswerSpellsDoesNotEndIt) {
  EXPECT_THAT(learnt(kPlainTemplate, talk({"q", "a<|end|>b"})), ElementsAre("a<|end|>b<|end|>"));
}

TEST_F(AnswerRanges, WithoutASpecialTokenTheWholeRestIsLearnt) {
  const std::string source =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt "
      "%}assistant: {% endif %}";
  EXPECT_THAT(learnt(source, talk({"q", "one", "r", "two"})), ElementsAre("one\n", "two\n"));
}

TEST_F(AnswerRanges, ATemplateThatWritesEarlierMessagesDifferentlyIsRefused) {
  // The first answer is shortened once more follows, as templates do that drop earlier thoughts.
  const std::string source =
      "{% for m in messages %}<|start|>{{ m.role }}\n{% if m.role == 'assistant' and not loop.last %}{{ "
      "m.content[1:] }}{% else %}{{ m.content }}"
      "{% endif %}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";
  EXPECT_THAT(reason(source, talk({"q", "one", "r", "two"})),
              HasSubstr("the template writes a beginning differently when more follows | \"one"));
  EXPECT_THAT(learnt(source, talk({"q", "one"})), ElementsAre("one<|end|>"));
}

TEST_F(AnswerRanges, ATemplateThatDropsTheAnswerIsRefused) {
  const std::string drops =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_THAT(reason(drops, talk({"q", "one"})), HasSubstr("the template drops an answer"));
  const std::string marks_nothing =
      "{% for m in messages %}{{ m.content }}{% generation %}{% endgeneration %}{% endfor %}";
  EXPECT_THAT(reason(marks_nothing, talk({"q", "one"})),
              HasSubstr("the template drops an answer | message 2 in what is learnt: \"one\" | nothing"));
  const std::string shortens = "{% for m in messages %}<|start|>{{ m.content[:2] }}<|end|>{% endfor %}";
  EXPECT_THAT(reason(shortens, talk({"q", "one"}), LearntPart::kAll),
              HasSubstr("the template drops an answer"));
}

TEST_F(AnswerRanges, WhatATemplateRaisesIsTheReason) {
  EXPECT_THAT(reason("{{ raise_exception('only once') }}", talk({"q", "a"})),
              HasSubstr("the template refuses a conversation"));
  EXPECT_THAT(reason("{{ raise_exception('only once') }}", talk({"q", "a"})), HasSubstr("only once"));
}

TEST_F(AnswerRanges, TemplatesAreToldVariablesToolsAndOneDate) {
  const std::string source =
      "{{ style }}|{{ tools | length }}|{{ strftime_now('%Y-%m-%d') }}|{% for m in messages %}{{ m.content "
      "}}<|end|>{% endfor %}";
  ChatSample sample = talk({"q", "one"});
  sample.tools = nlohmann::ordered_json::array({1, 2});
  const data::chat::ChatFormat written_by = format(source);
  const auto chat =
      render_learnt(sample, {written_by, tokenizer_, LearntPart::kAnswers, {{"style", "terse"}}});
  EXPECT_EQ(chat.text.bytes(), "terse|2|2025-01-01|q<|end|>one<|end|>");
}

}  // namespace
}  // namespace longhaul::posttrain
