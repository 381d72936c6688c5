#include "data/chat/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data::chat {
namespace {

Decoded character(std::string_view text, size_t at) {
  return decode_utf8(text.data() + at, text.data() + text.size());
}
Decoded character_before(std::string_view text, size_t at) {
  return decode_utf8_before(text.data(), text.data() + at);
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

bool is_line_end(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

}  // namespace

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, begins_character));
}

size_t character_length(std::string_view text, size_t at) {
  return static_cast<size_t>(character(text, at).length);
}

size_t byte_of_character(std::string_view text, size_t wanted) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_character(text[at]) && wanted-- == 0) return at;
  }
  return text.size();
}

bool is_python_space(char32_t code) { return is_space(code) || (code >= 0x1C && code <= 0x1F); }

bool is_cased(char32_t code) {
  const Category category = category_of(code);
  return category == Category::kLu || category == Category::kLl || category == Category::kLt;
}

void append_in_case(MarkedText& to, char32_t code, Case wanted, Mark mark, bool written) {
  const auto plain = static_cast<utf8proc_int32_t>(code);
  std::string changed;
  if (code == 0xDF && wanted != Case::kLower) {
    changed = wanted == Case::kUpper ? "SS" : "Ss";
  } else {
    append_utf8(changed, static_cast<char32_t>(wanted == Case::kUpper   ? utf8proc_toupper(plain)
                                               : wanted == Case::kLower ? utf8proc_tolower(plain)
                                                                        : utf8proc_totitle(plain)));
  }
  MarkedText piece(std::move(changed), mark);
  if (written) piece.set_written();
  to.append(piece);
}

MarkedText in_case(const MarkedText& text, Case wanted) {
  MarkedText result;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded next = character(text.bytes(), at);
    const Case own = wanted == Case::kTitle && in_word ? Case::kLower : wanted;
    append_in_case(result, next.code, own, text.mark(at), text.written(at));
    in_word = is_cased(next.code);
    at += static_cast<size_t>(next.length);
  }
  return result;
}

MarkedText capitalized(const MarkedText& text) {
  MarkedText result;
  for (size_t at = 0; at < text.size();) {
    const Decoded next = character(text.bytes(), at);
    append_in_case(result, next.code, at == 0 ? Case::kTitle : Case::kLower, text.mark(at), text.written(at));
    at += static_cast<size_t>(next.length);
  }
  return result;
}

MarkedText stripped(const MarkedText& text, Ends ends, const std::string* chars) {
  const std::string& bytes = text.bytes();
  const auto goes = [&](size_t at, const Decoded& found) {
    if (chars == nullptr) return is_python_space(found.code);
    return chars->find(bytes.substr(at, static_cast<size_t>(found.length))) != std::string::npos;
  };
  size_t begin = 0, end = bytes.size();
  while (ends != Ends::kRight && begin < end && goes(begin, character(bytes, begin)))
    begin += character_length(bytes, begin);
  while (ends != Ends::kLeft && begin < end) {
    const Decoded last = character_before(bytes, end);
    if (!goes(end - static_cast<size_t>(last.length), last)) break;
    end -= static_cast<size_t>(last.length);
  }
  return text.part(begin, end - begin);
}

namespace {

using Cuts = std::vector<std::pair<size_t, size_t>>;  // bytes [begin, end) of what is kept

Cuts split_at_spaces(const std::string& bytes, int64_t most, bool from_right) {
  Cuts words;
  for (size_t at = 0; at < bytes.size();) {
    const Decoded next = character(bytes, at);
    if (!is_python_space(next.code)) {
      if (words.empty() || words.back().second != at) words.emplace_back(at, at);
      words.back().second = at + static_cast<size_t>(next.length);
    }
    at += static_cast<size_t>(next.length);
  }
  const auto count = static_cast<int64_t>(words.size());
  if (most < 0 || count <= most + 1) return words;
  const auto kept = static_cast<size_t>(most);
  if (!from_right) {  // the last piece goes to the end of the text
    words.resize(kept + 1);
    words.back().second = bytes.size();
    return words;
  }
  const size_t joined = words.size() - kept;  // the first piece begins with the text
  words[joined - 1].first = 0;
  words.erase(words.begin(), words.begin() + static_cast<int64_t>(joined) - 1);
  return words;
}

Cuts split_at_text(const std::string& bytes, const std::string& separator, int64_t most, bool from_right) {
  Cuts pieces;
  if (!from_right) {
    size_t begin = 0;
    for (int64_t cuts = 0; most < 0 || cuts < most; ++cuts) {
      const size_t found = bytes.find(separator, begin);
      if (found == std::string::npos) break;
      pieces.emplace_back(begin, found);
      begin = found + separator.size();
    }
    pieces.emplace_back(begin, bytes.size());
    return pieces;
  }
  size_t end = bytes.size();
  for (int64_t cuts = 0; most < 0 || cuts < most; ++cuts) {
    const size_t found =
        end < separator.size() ? std::string::npos : bytes.rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    pieces.emplace_back(found + separator.size(), end);
    end = found;
  }
  pieces.emplace_back(0, end);
  std::ranges::reverse(pieces);
  return pieces;
}

}  // namespace

std::vector<MarkedText> split_text(const MarkedText& text, const std::string* separator, int64_t most,
                                   bool from_right) {
  if (separator != nullptr && separator->empty()) fail("split() wants a separator that is not empty");
  const Cuts cuts = separator == nullptr ? split_at_spaces(text.bytes(), most, from_right)
                                         : split_at_text(text.bytes(), *separator, most, from_right);
  std::vector<MarkedText> pieces;
  pieces.reserve(cuts.size());
  for (const auto& [begin, end] : cuts) pieces.push_back(text.part(begin, end - begin));
  return pieces;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> lines;
  const std::string& bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Decoded next = character(bytes, at);
    size_t after = at + static_cast<size_t>(next.length);
    if (is_line_end(next.code)) {
      if (next.code == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.push_back(text.part(begin, (keep_ends ? after : at) - begin));
      begin = after;
    }
    at = after;
  }
  if (begin < bytes.size()) lines.push_back(text.part(begin, bytes.size() - begin));
  return lines;
}

MarkedText replaced(const MarkedText& text, const std::string& from, const MarkedText& to, int64_t most,
                    Budget& budget) {
  const std::string& bytes = text.bytes();
  MarkedText result;
  const auto put = [&] {
    budget.steps();
    if (result.size() + to.size() > static_cast<size_t>(budget.limits().output_bytes))
      budget.text(result.size() + to.size());
    result.append(to);
  };
  size_t at = 0;
  int64_t done = 0;
  if (from.empty()) {  // before each character, and at the end
    for (; at < bytes.size() && (most < 0 || done < most); ++done) {
      put();
      const size_t length = character_length(bytes, at);
      result.append(text, at, length);
      at += length;
    }
    if (at == bytes.size() && (most < 0 || done < most)) put();
  }
  while (!from.empty() && (most < 0 || done < most)) {
    const size_t found = bytes.find(from, at);
    if (found == std::string::npos) break;
    result.append(text, at, found - at);
    put();
    at = found + from.size();
    ++done;
  }
  result.append(text, at, bytes.size() - at);
  return result;
}

MarkedText reversed(const MarkedText& text) {
  MarkedText result;
  for (size_t end = text.size(); end > 0;) {
    const auto length = static_cast<size_t>(character_before(text.bytes(), end).length);
    end -= length;
    result.append(text, end, length);
  }
  return result;
}

}  // namespace longhaul::data::chat
