#include "data/tokenizer/decoder.h"

#include <algorithm>

#include "data/tokenizer/definition_rules.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

Decoder::Decoder(const JsonView& definition) : present_(!definition.is_null()) { read(definition, 0); }

void Decoder::read(const JsonView& definition, int depth) {
  if (definition.is_null()) return;
  const std::string& type = definition.at("type").string();
  if (type == "Sequence") {
    if (depth > 8) definition.fail("at most 8 levels of sequences", "more");
    const JsonView list = definition.at("decoders");
    for (size_t i = 0; i < list.array_size(); ++i) read(list.at(i), depth + 1);
  } else if (type == "ByteLevel") {
    steps_.push_back({.kind = Step::Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    steps_.push_back({.kind = Step::Kind::kByteFallback});
  } else if (type == "Fuse") {
    steps_.push_back({.kind = Step::Kind::kFuse});
  } else if (type == "Strip") {
    steps_.push_back({.kind = Step::Kind::kStrip,
                      .text = definition.at("content").string(),
                      .start = definition.at("start").integer(0, 1 << 20),
                      .stop = definition.at("stop").integer(0, 1 << 20)});
    if (steps_.back().text.empty()) definition.at("content").fail("one character", "none");
  } else if (type == "Replace") {
    const JsonView pattern = definition.at("pattern");
    Step step{.kind = Step::Kind::kReplace, .content = definition.at("content").string()};
    if (pattern.has("String")) {
      if (pattern.at("String").string().empty()) pattern.fail("a text to replace", "the empty text");
      const std::string& text = pattern.at("String").string();
      step.pattern = Regex::literal(text, pattern.where());
      step.one_character =
          decode_utf8_before(text.data(), text.data() + text.size()).length == static_cast<int>(text.size());
    } else {
      step.pattern.emplace(pattern.at("Regex").string(), pattern.where());
    }
    steps_.push_back(std::move(step));
  } else if (type == "Metaspace") {
    const std::string scheme =
        definition.has("prepend_scheme") ? definition.at("prepend_scheme").string() : "always";
    steps_.push_back({.kind = Step::Kind::kMetaspace,
                      .text = definition.at("replacement").string(),
                      .drop_first = scheme != "never" && definition.boolean_or("add_prefix_space", true)});
    if (steps_.back().text.empty()) definition.at("replacement").fail("one character", "none");
  } else {
    refuse_unsupported(definition, "decoder " + type,
                       "ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace or Sequence");
  }
}

bool Decoder::local() const {
  return std::ranges::all_of(steps_, [](const Step& step) {
    return step.kind == Step::Kind::kReplace ? step.one_character
                                             : step.kind != Step::Kind::kStrip || step.stop == 0;
  });
}

std::string Decoder::byte_level_text(const std::string& token) {
  std::string bytes;
  return chars_to_bytes(token, bytes) ? bytes : token;
}

std::string Decoder::strip(const Step& step, const std::string& token) {
  size_t begin = 0;
  for (int64_t i = 0;
       i < step.start && token.compare(begin, step.text.size(), step.text) == 0 && begin < token.size();
       ++i) {
    begin += step.text.size();
  }
  size_t end = token.size();
  for (int64_t i = 0; i < step.stop && end >= begin + step.text.size(); ++i) {
    if (token.compare(end - step.text.size(), step.text.size(), step.text) != 0) break;
    end -= step.text.size();
  }
  return token.substr(begin, end - begin);
}

std::string Decoder::replace(const Step& step, const std::string& token) {
  std::string replaced;
  size_t done = 0;
  for (const Match& match : step.pattern->matches(token)) {
    replaced.append(token, done, static_cast<size_t>(match.begin) - done).append(step.content);
    done = static_cast<size_t>(match.end);
  }
  return replaced.append(token, done);
}

std::vector<std::string> Decoder::join_fallback_bytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> joined;
  bool in_bytes = false;
  for (const std::string& token : tokens) {
    int byte = -1;
    if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>')) {
      const auto digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        return -1;
      };
      if (digit(token[3]) >= 0 && digit(token[4]) >= 0) byte = digit(token[3]) * 16 + digit(token[4]);
    }
    if (byte < 0) {
      joined.push_back(token);
    } else if (in_bytes) {
      joined.back().push_back(static_cast<char>(byte));
    } else {
      joined.emplace_back(1, static_cast<char>(byte));
    }
    in_bytes = byte >= 0;
  }
  return joined;
}

std::vector<std::string> Decoder::run(const Step& step, const std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  switch (step.kind) {
    case Step::Kind::kByteLevel:
    case Step::Kind::kFuse: {
      std::string all;
      for (const std::string& token : tokens)
        all += step.kind == Step::Kind::kFuse ? token : byte_level_text(token);
      result.push_back(std::move(all));
      break;
    }
    case Step::Kind::kByteFallback:
      return join_fallback_bytes(tokens);
    case Step::Kind::kStrip:
      for (const std::string& token : tokens) result.push_back(strip(step, token));
      break;
    case Step::Kind::kReplace:
      for (const std::string& token : tokens) result.push_back(replace(step, token));
      break;
    case Step::Kind::kMetaspace:
      for (const std::string& token : tokens) {
        std::string text;
        for (size_t at = 0; at < token.size();) {
          if (token.compare(at, step.text.size(), step.text) == 0) {
            if (!result.empty() || !step.drop_first) text.push_back(' ');
            at += step.text.size();
          } else {
            text.push_back(token[at++]);
          }
        }
        result.push_back(std::move(text));
      }
      break;
  }
  return result;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) tokens = run(step, tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!present_ && i > 0) text.push_back(' ');  // without a decoder `tokenizers` joins with spaces
    text += tokens[i];
  }
  return text;
}

}  // namespace longhaul::data
