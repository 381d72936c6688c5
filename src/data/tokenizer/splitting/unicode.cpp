#include "data/tokenizer/splitting/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "base/error.h"
#include "data/tokenizer/splitting/unicode_table.h"

namespace longhaul::data {

namespace {

CharClass class_from(char32_t code, uint8_t properties) {
  switch (static_cast<Category>(properties & 31)) {
    case Category::kLu:
    case Category::kLl:
    case Category::kLt:
    case Category::kLm:
    case Category::kLo:
      return CharClass::kLetter;
    case Category::kNd:
    case Category::kNl:
    case Category::kNo:
      return CharClass::kNumber;
    case Category::kZs:
    case Category::kZl:
    case Category::kZp:
      return CharClass::kSpace;
    default:
      return (code >= 9 && code <= 13) || code == 0x85 ? CharClass::kSpace : CharClass::kOther;
  }
}

struct TableStorage {
  std::array<uint16_t, 0x1100> blocks;
  std::vector<uint8_t> properties;
  std::vector<CharClass> classes;
  UnicodeTables view;

  TableStorage() {
    std::map<std::array<uint8_t, 512>, uint16_t> seen;  // equal blocks are stored once
    size_t run = 0;
    const size_t runs = std::size(kUnicodeRuns);
    for (size_t block = 0; block < blocks.size(); ++block) {
      std::array<uint8_t, 512> content;
      for (uint32_t low = 0; low < 256; ++low) {
        const uint32_t code = static_cast<uint32_t>(block) * 256 + low;
        while (run + 1 < runs && (kUnicodeRuns[run + 1] >> 8) <= code) ++run;
        const uint8_t value = kUnicodeRuns[run] & 255;
        content[low] = value;
        content[256 + low] = static_cast<uint8_t>(class_from(code, value));
      }
      const auto [found, fresh] = seen.emplace(content, static_cast<uint16_t>(seen.size()));
      if (fresh) {
        properties.insert(properties.end(), content.begin(), content.begin() + 256);
        for (size_t low = 256; low < 512; ++low) classes.push_back(static_cast<CharClass>(content[low]));
      }
      blocks[block] = found->second;
    }
    view = {blocks.data(), properties.data(), classes.data()};
  }
};

bool continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

struct ByteAlphabet {
  std::array<char32_t, 256> to_char;
  std::array<int16_t, 0x180> to_byte;

  ByteAlphabet() {
    to_byte.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      to_char[byte] = printable ? static_cast<char32_t>(byte) : next++;
      to_byte[to_char[byte]] = static_cast<int16_t>(byte);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

const UnicodeTables& unicode_tables() {
  static const TableStorage storage;
  return storage.view;
}

Decoded decode_utf8_before(const char* begin, const char* at) {
  const char* start = at - 1;
  while (start > begin && at - start < 4 && continuation(*start)) --start;
  const Decoded decoded = decode_utf8(start, at);
  if (start + decoded.length == at) return decoded;
  return {static_cast<uint8_t>(at[-1]) < 0x80 ? static_cast<char32_t>(at[-1]) : kBadByte, 1};
}

void append_utf8(std::string& to, char32_t code) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    to.push_back(static_cast<char>(0xC0 | code >> 6));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    to.push_back(static_cast<char>(0xE0 | code >> 12));
    to.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    to.push_back(static_cast<char>(0xF0 | code >> 18));
    to.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    to.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

bool already_nfc(std::string_view text) {
  // Below U+0300 nothing reorders, decomposes or combines with the character before it: lead bytes up to
  // 0xCB.
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0xCC) return false;
  }
  return true;
}

namespace {

void append_composed(std::string& to, std::string_view run) {
  if (run.empty()) return;
  utf8proc_uint8_t* composed = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                                   static_cast<utf8proc_ssize_t>(run.size()), &composed,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  LONGHAUL_ASSERT(length >= 0, "utf8proc: {}", utf8proc_errmsg(length));
  to.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(length));
  std::free(composed);
}

}  // namespace

std::string nfc(std::string_view text) {
  // The library may know newer characters than `tokenizers`: only runs of characters that `tokenizers` itself
  // reorders or composes are passed to it; every other character, and every bad byte, stays as it is and ends
  // a run.
  std::string result;
  result.reserve(text.size());
  const char* at = text.data();
  const char* end = at + text.size();
  const char* run = at;
  while (at < end) {
    const Decoded decoded = decode_utf8(at, end);
    if (!(properties_of(decoded.code) & kComposingProperty)) {
      append_composed(result, {run, static_cast<size_t>(at - run)});
      result.append(at, static_cast<size_t>(decoded.length));
      run = at + decoded.length;
    }
    at += decoded.length;
  }
  append_composed(result, {run, static_cast<size_t>(at - run)});
  return result;
}

char32_t byte_to_char(uint8_t byte) { return byte_alphabet().to_char[byte]; }

int char_to_byte(char32_t code) { return code < 0x180 ? byte_alphabet().to_byte[code] : -1; }

std::string bytes_to_chars(std::string_view bytes) {
  std::string chars;
  for (const char byte : bytes) append_utf8(chars, byte_to_char(static_cast<uint8_t>(byte)));
  return chars;
}

bool chars_to_bytes(std::string_view chars, std::string& bytes) {
  bytes.clear();
  const char* at = chars.data();
  const char* end = at + chars.size();
  while (at < end) {
    const Decoded decoded = decode_utf8(at, end);
    const int byte = char_to_byte(decoded.code);
    if (byte < 0) return false;
    bytes.push_back(static_cast<char>(byte));
    at += decoded.length;
  }
  return true;
}

}  // namespace longhaul::data
