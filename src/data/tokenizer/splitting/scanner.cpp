#include "data/tokenizer/splitting/scanner.h"

#include <array>

#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

namespace {

// Class of each ASCII byte, so that the usual character costs one load.
struct AsciiClasses {
  std::array<CharClass, 128> of;
  AsciiClasses() {
    for (char32_t code = 0; code < 128; ++code) of[code] = class_of(code);
  }
};
const AsciiClasses kAscii;

struct Looked {
  CharClass kind;
  int length;
};

inline Looked look(const char* at, const char* end) {
  const uint8_t first = static_cast<uint8_t>(*at);
  if (first < 0x80) [[likely]]
    return {kAscii.of[first], 1};
  const Decoded decoded = decode_utf8(at, end);
  return {class_of(decoded.code), decoded.length};
}

inline const char* run_of(CharClass kind, const char* at, const char* end) {
  while (at < end) {
    const Looked next = look(at, end);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

inline bool newline(char c) { return c == '\n' || c == '\r'; }

// \s+(?!\S)|\s+ : a run of spaces leaves its last character to the word that follows, unless it is alone.
const char* spaces(const char* at, const char* end) {
  const char* last = at;
  const char* stop = at;
  while (stop < end) {
    const Looked next = look(stop, end);
    if (next.kind != CharClass::kSpace) break;
    last = stop;
    stop += next.length;
  }
  return stop == end || last == at ? stop : last;
}

// 's 't 'm 'd 're 've 'll after an apostrophe at `at`; any case when `fold`. nullptr: none.
const char* contraction(const char* at, const char* end, bool fold) {
  const auto room = end - at;
  if (room < 2) return nullptr;
  const char first = fold && at[1] >= 'A' && at[1] <= 'Z' ? static_cast<char>(at[1] + 32) : at[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (room < 3) return nullptr;
  const char second = fold && at[2] >= 'A' && at[2] <= 'Z' ? static_cast<char>(at[2] + 32) : at[2];
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
  if (fold && at[1] == '\xC5' && at[2] == '\xBF') return at + 3;  // U+017F, the long s, folds to s
  return nullptr;
}

}  // namespace

const char* next_gpt2(const char* at, const char* end) {
  if (*at == '\'') {
    if (const char* stop = contraction(at, end, false)) return stop;
  }
  const char* word = at;
  if (*at == ' ') {
    if (at + 1 == end) return end;
    word = at + 1;
  }
  const Looked first = look(word, end);
  if (first.kind == CharClass::kSpace) return spaces(at, end);
  return run_of(first.kind, word + first.length, end);
}

const char* next_llama3(const char* at, const char* end, int digits) {
  if (*at == '\'') {
    if (const char* stop = contraction(at, end, true)) return stop;
  }
  const Looked first = look(at, end);
  const char* after = at + first.length;
  if (first.kind == CharClass::kLetter) return run_of(CharClass::kLetter, after, end);
  if (first.kind == CharClass::kNumber) {
    for (int taken = 1; taken < digits && after < end; ++taken) {
      const Looked next = look(after, end);
      if (next.kind != CharClass::kNumber) break;
      after += next.length;
    }
    return after;
  }
  // One character that is not a line end may precede letters; a space may also precede other characters.
  Looked second{CharClass::kSpace, 0};
  if (after < end) second = look(after, end);
  if (second.kind == CharClass::kLetter && !newline(*at))
    return run_of(CharClass::kLetter, after + second.length, end);
  if (first.kind == CharClass::kOther || (*at == ' ' && second.kind == CharClass::kOther)) {
    after = run_of(CharClass::kOther, after, end);
    while (after < end && newline(*after)) ++after;
    return after;
  }
  const char* stop = run_of(CharClass::kSpace, at, end);
  for (const char* last = stop; last > at; --last) {
    if (newline(last[-1])) return last;
  }
  return spaces(at, end);
}

int64_t last_safe_cut(SplitFamily family, std::string_view text) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const char* stop = end;
  // The last character may be the first part of one whose other bytes have not come yet.
  for (int back = 0; back < 4 && stop > begin; ++back) {
    const uint8_t byte = static_cast<uint8_t>(*--stop);
    if (byte < 0x80 || byte >= 0xC0) break;
  }
  if (stop > begin) stop -= decode_utf8_before(begin, stop).length;
  while (stop > begin) {
    const Decoded before = decode_utf8_before(begin, stop);
    const CharClass left = class_of(before.code);
    const CharClass right = look(stop, end).kind;
    const bool line_end_follows = family != SplitFamily::kGpt2 && newline(*stop);
    if (left == CharClass::kLetter || left == CharClass::kNumber) {
      if (left != right) return stop - begin;
    } else if (left == CharClass::kOther && right == CharClass::kSpace && !line_end_follows) {
      return stop - begin;
    }
    stop -= before.length;
  }
  return 0;
}

}  // namespace longhaul::data
