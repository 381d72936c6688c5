#include "puzzles/changed_answers.h"

#include <algorithm>
#include <vector>

namespace longhaul::puzzles {
namespace {

// The places of numbers and words, from their first character to after their last.
std::vector<std::pair<size_t, size_t>> words_in(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalnum(static_cast<unsigned char>(text[i])) == 0) continue;
    const size_t begin = i;
    while (i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0) ++i;
    words.emplace_back(begin, i);
  }
  return words;
}

// One cell that changes, two that change places, or a number of which no answer holds one.
std::string with_other_words(std::string text, Draw& draw, uint64_t kind) {
  const auto words = words_in(text);
  if (words.empty()) return text + "1";
  auto [begin, end] = draw.pick(words);
  if (kind == 0) return text.replace(begin, end - begin, std::to_string(draw.below(10)));
  if (kind == 1) return text.replace(begin, end - begin, "99999999999999999999999");
  auto [from, to] = draw.pick(words);
  const std::string one = text.substr(begin, end - begin), other = text.substr(from, to - from);
  if (begin > from) return text.replace(begin, one.size(), other).replace(from, other.size(), one);
  return text.replace(from, other.size(), one).replace(begin, one.size(), other);
}

std::string of_other_shape(const std::string& text, Draw& draw, uint64_t kind) {
  const size_t comma = text.rfind(',');
  switch (kind) {
    case 0:
      return comma == std::string::npos ? text + text : text.substr(0, comma) + "]";
    case 1:
      return std::string(20, '[') + text + std::string(20, ']');
    case 2:
      return "[" + text + ", " + text + "]";
    default:
      return text.substr(0, draw.below(text.size()));
  }
}

}  // namespace

std::string changed_answer(const std::string& answer, Draw& draw) {
  std::string text = answer;
  const size_t at = draw.below(text.size());
  switch (const uint64_t kind = draw.below(12)) {
    case 0:
      text[at] = "0123456789X()[]+-*/ "[draw.below(20)];
      return text;
    case 1:
      std::swap(text[at], text[draw.below(text.size())]);
      return text;
    case 2:
      return text.erase(at, 1);
    case 3:
      text.insert(at, 1, text[at]);
      return text;
    case 4:
    case 5:
    case 6:
      return with_other_words(text, draw, kind - 4);
    case 7:
    case 8:
    case 9:
    case 10:
      return of_other_shape(text, draw, kind - 7);
    default:  // its digits as Arabic ones, which no prompt asks for
      std::string arabic;
      for (const char c : text) {
        if (c >= '0' && c <= '9') {
          arabic += '\xD9';
          arabic += static_cast<char>(0xA0 + (c - '0'));
        } else {
          arabic += c;
        }
      }
      return arabic;
  }
}

std::string in_wide_characters(const std::string& answer) {
  std::string wide;
  for (const char c : answer) {
    if (c <= ' ' || c > '~') {
      wide += c;
      continue;
    }
    const int code = 0xFF01 + (c - '!');  // three bytes of UTF-8
    wide += static_cast<char>(0xE0 | code >> 12);
    wide += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    wide += static_cast<char>(0x80 | (code & 0x3F));
  }
  return wide;
}

}  // namespace longhaul::puzzles
