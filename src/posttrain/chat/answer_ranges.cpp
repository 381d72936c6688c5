#include "posttrain/chat/answer_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/text/text.h"

namespace longhaul::posttrain {

using data::chat::ByteRange;
using data::chat::MarkedText;
using data::chat::RenderedChat;
using nlohmann::ordered_json;

namespace {

// The date that templates are told, always the same one: the same files must make the same tokens on any day.
std::tm date_of_preparation() {
  std::tm date{};
  date.tm_year = 125;
  date.tm_mday = 1;
  date.tm_wday = 3;
  return date;
}

// The first `messages` of the sample.
RenderedChat render_beginning(const ChatSample& sample, const TemplateUse& use, size_t messages,
                              bool prompt) {
  data::chat::ChatInput input{.tools = sample.tools,
                              .variables = use.variables,
                              .add_generation_prompt = prompt,
                              .now = date_of_preparation()};
  input.messages =
      ordered_json(sample.messages.begin(), sample.messages.begin() + static_cast<ptrdiff_t>(messages));
  try {
    return use.format.render(std::move(input));
  } catch (const Error& error) {
    throw BadSample("the template refuses a conversation", "a conversation that the chat template writes",
                    fmt::format("{} ({})", error.fields().found, error.fields().where));
  }
}

// The size of `beginning`, which must be one of the text.
size_t size_within(const RenderedChat& beginning, const RenderedChat& all, size_t messages) {
  const std::string &part = beginning.text.bytes(), &whole = all.text.bytes();
  if (whole.starts_with(part)) return part.size();
  const auto where = std::ranges::mismatch(part, whole);
  const auto at = static_cast<size_t>(where.in1 - part.begin());
  throw BadSample("the template writes a beginning differently when more follows",
                  fmt::format("\"{}\" at byte {}, as the first {} alone are written",
                              printable(brief(std::string_view(part).substr(at), 30)), at,
                              counted(static_cast<int64_t>(messages), "message")),
                  fmt::format("\"{}\"", printable(brief(std::string_view(whole).substr(at), 30))));
}

// [begin, end) without what the template writes after the first special token behind the content.
size_t end_of_answer(const MarkedText& text, ByteRange range, const data::Tokenizer& tokenizer) {
  size_t content = range.end;
  while (content > range.begin && text.mark(content - 1) != data::chat::Mark::kData) --content;
  const RenderedChat tail{.text = text.part(content, range.end - content), .written = {}};
  size_t at = content;
  for (const int32_t id : data::chat::encode(tail, tokenizer)) {
    const std::string token = tokenizer.decode(std::vector<int32_t>{id});
    at += token.size();
    if (tokenizer.is_special(id) && at <= range.end) return at;
  }
  return range.end;
}

std::vector<size_t> answers_of(const ChatSample& sample) {
  std::vector<size_t> answers;
  for (size_t i = 0; i < sample.messages.size(); ++i) {
    if (sample.messages[i]["role"] == "assistant") answers.push_back(i);
  }
  return answers;
}

// The ranges of a template with {% generation %} blocks: those of the last answer, where only it is learnt.
std::vector<ByteRange> marked_ranges(const ChatSample& sample, const TemplateUse& use,
                                     const RenderedChat& all) {
  if (use.learnt == LearntPart::kAnswers) return all.written;
  const size_t earlier = render_beginning(sample, use, answers_of(sample).back(), false).written.size();
  return {all.written.begin() + static_cast<ptrdiff_t>(std::min(earlier, all.written.size())),
          all.written.end()};
}

std::vector<ByteRange> ranges_by_beginnings(const ChatSample& sample, const TemplateUse& use,
                                            const RenderedChat& all) {
  std::vector<size_t> answers = answers_of(sample);
  if (use.learnt == LearntPart::kLastAnswer) answers.erase(answers.begin(), answers.end() - 1);
  std::vector<ByteRange> ranges;
  for (const size_t answer : answers) {
    const bool last = answer + 1 == sample.messages.size();
    const size_t begin = size_within(render_beginning(sample, use, answer, true), all, answer);
    const size_t end = last ? all.text.size()
                            : size_within(render_beginning(sample, use, answer + 1, false), all, answer + 1);
    if (end <= begin)
      throw BadSample("the template drops an answer", "text of the assistant in the rendered conversation",
                      "none");
    ranges.push_back({begin, end_of_answer(all.text, {begin, end}, use.tokenizer)});
  }
  return ranges;
}

// The texts of an answer as templates write them: without white space around it.
std::vector<std::string> texts_of(const ordered_json& message) {
  std::vector<std::string> texts;
  const auto add = [&](const ordered_json& text) {
    const std::string whole = text.get<std::string>();
    if (!trimmed(whole).empty()) texts.emplace_back(trimmed(whole));
  };
  if (!message.contains("content")) return texts;
  const ordered_json& content = message["content"];
  if (content.is_string()) add(content);
  if (content.is_array()) {
    for (const ordered_json& part : content) add(part["text"]);
  }
  return texts;
}

// Each answer that is learnt must be in the ranges, in order.
void require_answers(const ChatSample& sample, const TemplateUse& use, const RenderedChat& all) {
  std::vector<size_t> answers = answers_of(sample);
  if (use.learnt == LearntPart::kLastAnswer) answers.erase(answers.begin(), answers.end() - 1);
  std::string learnt;
  for (const ByteRange& range : all.written)
    learnt += all.text.bytes().substr(range.begin, range.end - range.begin);
  size_t from = 0;
  for (const size_t answer : answers) {
    for (const std::string& text : texts_of(sample.messages[answer])) {
      const size_t found = learnt.find(text, from);
      if (found == std::string::npos) {
        throw BadSample(
            "the template drops an answer",
            fmt::format("message {} in what is learnt: \"{}\"", answer + 1, printable(brief(text, 40))),
            learnt.empty() ? "nothing is learnt" : fmt::format("\"{}\"", printable(brief(learnt, 40))));
      }
      from = found + text.size();
    }
  }
}

}  // namespace

RenderedChat render_learnt(const ChatSample& sample, const TemplateUse& use) {
  RenderedChat all = render_beginning(sample, use, sample.messages.size(), false);
  if (use.learnt == LearntPart::kAll) {
    all.written = {{0, all.text.size()}};
  } else {
    const bool marks = use.format.chat_template(!sample.tools.is_null()).marks_generation();
    all.written = marks ? marked_ranges(sample, use, all) : ranges_by_beginnings(sample, use, all);
  }
  require_answers(sample, use, all);
  return all;
}

}  // namespace longhaul::posttrain
