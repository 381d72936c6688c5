#include "data/tokenizer/splitting/normalizer.h"

#include <algorithm>

#include "data/tokenizer/definition_rules.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

Normalizer::Normalizer(const JsonView& definition) { read(definition, 0); }

void Normalizer::read(const JsonView& definition, int depth) {
  if (definition.is_null()) return;
  const std::string& type = definition.at("type").string();
  if (type == "Sequence") {
    if (depth > 8) definition.fail("at most 8 levels of sequences", "more");
    const JsonView list = definition.at("normalizers");
    for (size_t i = 0; i < list.array_size(); ++i) read(list.at(i), depth + 1);
  } else if (type == "NFC") {
    steps_.push_back({.kind = Step::Kind::kNfc});
  } else if (type == "Prepend") {
    steps_.push_back({.kind = Step::Kind::kPrepend, .text = definition.at("prepend").string()});
  } else if (type == "Replace") {
    const JsonView pattern = definition.at("pattern");
    Step step{.kind = Step::Kind::kReplaceText, .content = definition.at("content").string()};
    if (pattern.has("String")) {
      step.text = pattern.at("String").string();
      if (step.text.empty()) pattern.fail("a text to replace", "the empty text");
    } else {
      step.kind = Step::Kind::kReplacePattern;
      step.pattern.emplace(pattern.at("Regex").string(), pattern.where());
    }
    steps_.push_back(std::move(step));
  } else {
    refuse_unsupported(definition, "normalizer " + type, "NFC, Replace, Prepend or Sequence");
  }
}

std::string_view Normalizer::apply(std::string_view text, bool continued,
                                   std::deque<std::string>& storage) const {
  for (const Step& step : steps_) {
    if (text.empty()) break;
    switch (step.kind) {
      case Step::Kind::kNfc:
        if (!already_nfc(text)) text = storage.emplace_back(nfc(text));
        break;
      case Step::Kind::kPrepend:
        if (!continued) text = storage.emplace_back(step.text + std::string(text));
        break;
      case Step::Kind::kReplaceText: {
        size_t at = text.find(step.text);
        if (at == std::string_view::npos) break;
        std::string& replaced = storage.emplace_back();
        size_t done = 0;
        for (; at != std::string_view::npos; at = text.find(step.text, done)) {
          replaced.append(text, done, at - done).append(step.content);
          done = at + step.text.size();
        }
        replaced.append(text, done);
        text = replaced;
        break;
      }
      case Step::Kind::kReplacePattern: {
        std::string& replaced = storage.emplace_back();
        size_t done = 0;
        for (const Match& match : step.pattern->matches(text)) {
          replaced.append(text, done, static_cast<size_t>(match.begin) - done).append(step.content);
          done = static_cast<size_t>(match.end);
        }
        replaced.append(text, done);
        text = replaced;
        break;
      }
    }
  }
  return text;
}

bool Normalizer::only_nfc() const {
  return std::ranges::all_of(steps_, [](const Step& step) { return step.kind == Step::Kind::kNfc; });
}

bool Normalizer::by_character() const {
  return std::ranges::all_of(steps_, [](const Step& step) {
    if (step.kind == Step::Kind::kPrepend) return true;
    const char* text = step.text.data();
    return step.kind == Step::Kind::kReplaceText &&
           decode_utf8(text, text + step.text.size()).length == static_cast<int>(step.text.size());
  });
}

char32_t Normalizer::space_becomes() const {
  std::deque<std::string> storage;
  const std::string_view result = apply(" ", true, storage);
  return result.empty() ? U' ' : decode_utf8(result.data(), result.data() + result.size()).code;
}

}  // namespace longhaul::data
