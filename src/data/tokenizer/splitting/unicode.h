// The Unicode functions that the tokenizer needs in addition to base/text/utf8.h: general categories and NFC.
// The tables are those of Hugging Face `tokenizers` (unicode_table.h), so that characters newer than a system
// library's Unicode version are classified as there. A byte that is not part of well-formed UTF-8 is a
// character of its own, of category Cc like a control character: not a letter, not a number, not a space. No
// function allocates or locks; all are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/text/utf8.h"

namespace longhaul::data {

enum class Category : uint8_t {
  kCn,
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCo,
};

inline constexpr uint8_t kNumericProperty = 1 << 5;
inline constexpr uint8_t kWordProperty = 1 << 6;
inline constexpr uint8_t kComposingProperty = 1 << 7;

// Classes of the pre-tokenizers' scanners.
enum class CharClass : uint8_t { kOther, kLetter, kNumber, kSpace };

// Two-stage tables: block = blocks[code >> 8], then [block * 256 + (code & 255)].
struct UnicodeTables {
  const uint16_t* blocks;
  const uint8_t* properties;
  const CharClass* classes;
};
const UnicodeTables& unicode_tables();

Decoded decode_utf8_before(const char* begin, const char* at);  // the character that ends at `at`; begin < at
void append_utf8(std::string& to, char32_t code);

inline uint8_t properties_of(char32_t code) {
  if (code >= kBadByte) return static_cast<uint8_t>(Category::kCc);
  const UnicodeTables& tables = unicode_tables();
  return tables.properties[tables.blocks[code >> 8] * 256 + (code & 255)];
}
inline Category category_of(char32_t code) { return static_cast<Category>(properties_of(code) & 31); }
inline CharClass class_of(char32_t code) {
  if (code >= kBadByte) return CharClass::kOther;
  const UnicodeTables& tables = unicode_tables();
  return tables.classes[tables.blocks[code >> 8] * 256 + (code & 255)];
}
inline bool is_space(char32_t code) { return class_of(code) == CharClass::kSpace; }

// Normalization form C. `already_nfc` is a quick test that may return false for text in NFC.
bool already_nfc(std::string_view text);
std::string nfc(std::string_view text);

// Byte-level alphabets write each byte as one printable character (GPT-2's table).
char32_t byte_to_char(uint8_t byte);
int char_to_byte(char32_t code);                     // -1: not in the alphabet
std::string bytes_to_chars(std::string_view bytes);  // UTF-8 of the characters
// false: some character is not in the alphabet.
bool chars_to_bytes(std::string_view chars, std::string& bytes);

}  // namespace longhaul::data
