#include "puzzles/engine/answers/answer.h"

#include <algorithm>
#include <vector>

#include "base/text/text.h"
#include "base/text/utf8.h"

namespace longhaul::puzzles {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>", kAnswer = "<answer>",
                           kAnswerEnd = "</answer>";

// The plain character that a wide one stands for; 0: it is none of those.
char plain_of(char32_t code) {
  if (code >= 0xFF01 && code <= 0xFF5E) return static_cast<char>(code - 0xFF01 + '!');
  switch (code) {
    case 0x3000:
      return ' ';
    case 0x3001:
      return ',';  // 、
    case 0x2212:
      return '-';
    case 0x00D7:
      return '*';
    case 0x00F7:
      return '/';
    case 0x3010:
      return '[';
    case 0x3011:
      return ']';
    case 0x201C:
    case 0x201D:
      return '"';
    case 0x2018:
    case 0x2019:
      return '\'';
    default:
      return 0;
  }
}

// What stands in the last fenced block; the text itself where there is none.
std::string_view without_fence(std::string_view text) {
  constexpr std::string_view kFence = "```";
  const size_t end = text.rfind(kFence);
  if (end == std::string_view::npos || end == 0) return text;
  const size_t begin = text.rfind(kFence, end - 1);
  if (begin == std::string_view::npos || begin + kFence.size() > end) return text;
  std::string_view inside = text.substr(begin + kFence.size(), end - begin - kFence.size());
  const size_t line = inside.find('\n');
  const size_t word =
      inside.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_");
  // the first line names a language
  if (line != std::string_view::npos && word >= line) inside = inside.substr(line + 1);
  return inside;
}

// What stands between the braces after the last `command`; the text itself where there are none that match.
std::string_view without_command(std::string_view text, std::string_view command) {
  const size_t at = text.rfind(command);
  if (at == std::string_view::npos) return text;
  const size_t begin = at + command.size();
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(begin, i - begin);
  }
  return text;
}

// Every \text{…} becomes what stands between its braces; the text itself where one has no end.
std::string without_text_commands(std::string_view text) {
  constexpr std::string_view kText = "\\text{";
  std::string out;
  std::vector<bool> open;  // for each brace that has no end yet: whether it is one of \text
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, kText.size()) == kText) {
      open.push_back(true);
      i += kText.size() - 1;
      continue;
    }
    if (text[i] == '{') open.push_back(false);
    const bool ends_text = text[i] == '}' && !open.empty() && open.back();
    if (text[i] == '}' && !open.empty()) open.pop_back();
    if (!ends_text) out += text[i];
  }
  return std::ranges::find(open, true) == open.end() ? out : std::string(text);
}

std::string without_shell(std::string_view text) {
  text = trimmed(without_fence(trimmed(text)));
  text = trimmed(without_command(text, "\\boxed{"));
  return plain_characters(trimmed(without_text_commands(text)));
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

}  // namespace

std::string plain_characters(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char* at = text.data(); at < text.data() + text.size();) {
    const Decoded one = decode_utf8(at, text.data() + text.size());
    if (const char plain = plain_of(one.code)) {
      out += plain;
    } else {
      out.append(at, static_cast<size_t>(one.length));
    }
    at += one.length;
  }
  return out;
}

std::optional<std::string> payload_without_tags(std::string_view answer) {
  if (answer.size() > kLongestPayload) return std::nullopt;
  return without_shell(answer);
}

std::optional<std::string> payload_of(std::string_view response) {
  if (const size_t thought = response.rfind(kThinkEnd); thought != std::string_view::npos)
    response.remove_prefix(thought + kThinkEnd.size());
  const size_t end = response.rfind(kAnswerEnd);
  if (end == std::string_view::npos) return std::nullopt;
  const size_t begin = response.rfind(kAnswer, end);
  if (begin == std::string_view::npos || begin + kAnswer.size() > end) return std::nullopt;
  return payload_without_tags(response.substr(begin + kAnswer.size(), end - begin - kAnswer.size()));
}

bool has_strict_format(std::string_view response) {
  response = trimmed(response);
  if (!response.starts_with(kThink) || !response.ends_with(kAnswerEnd)) return false;
  for (const std::string_view tag : {kThink, kThinkEnd, kAnswer, kAnswerEnd}) {
    if (count_of(response, tag) != 1) return false;
  }
  return response.find(kThinkEnd) < response.find(kAnswer);
}

}  // namespace longhaul::puzzles
