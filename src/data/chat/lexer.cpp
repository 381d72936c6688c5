#include "data/chat/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "data/chat/characters.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data::chat {
namespace {

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
         static_cast<unsigned char>(byte) >= 0x80;
}
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// As Jinja reads a source: "\n" for every line end, and one of them at the very end is dropped.
std::string plain_line_ends(const std::string& source) {
  std::string text;
  text.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      text += source[at];
    } else if (at + 1 == source.size() || source[at + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  Lexer(std::string source, int& line) : source_(std::move(source)), line_(line) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }
  bool at_text(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<int64_t>(at_),
                                         source_.begin() + static_cast<int64_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }
  void skip_spaces() {
    while (at_ < source_.size()) {
      const Decoded next = decode_utf8(source_.data() + at_, source_.data() + source_.size());
      if (!is_python_space(next.code)) return;
      advance(static_cast<size_t>(next.length));
    }
  }

  // White space before a tag goes where the tag says "-"; blanks at the beginning of its line where it says
  // nothing and is no output.
  std::string_view before_tag(size_t begin, size_t tag, char sign, bool output) const {
    std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    if (sign == '-')
      return text.substr(0, stripped({std::string(text), Mark::kTemplate}, Ends::kRight).size());
    if (sign == '+' || output) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const MarkedText blanks(std::string(text.substr(line)), Mark::kTemplate);
    return stripped(blanks, Ends::kBoth).empty() ? text.substr(0, line) : text;
  }

  // The end of a tag, from behind its "-" or "+": what follows it goes with it.
  void after_tag(char sign, size_t mark_bytes, bool trims_line_end) {
    advance(mark_bytes);
    const size_t begin = at_;
    if (sign == '-') {
      skip_spaces();
    } else if (sign != '+' && trims_line_end && at_text("\n")) {
      advance(1);
    }
    line_starting_ = at_ > begin ? source_[at_ - 1] == '\n' : false;
  }

  void text() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos) tag = source_.size();
      if (tag + 1 >= source_.size() || source_[tag + 1] == '{' || source_[tag + 1] == '%' ||
          source_[tag + 1] == '#')
        break;
      ++tag;
    }
    if (tag + 1 >= source_.size()) {
      add(TokenKind::kText, source_.substr(at_));
      advance(source_.size() - at_);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const bool signed_tag = sign == '-' || sign == '+';
    const std::string_view kept = before_tag(at_, tag, sign, kind == '{');
    if (!kept.empty()) add(TokenKind::kText, std::string(kept));
    advance(tag - at_ + 2 + (signed_tag ? 1 : 0));
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kOutputBegin, "");
    inside(kind == '%');
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("the comment has no #}}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    advance(end - at_);
    after_tag(sign, 2, true);
  }

  // {% raw %} … {% endraw %}, whose first tag was just begun.
  bool raw() {
    size_t at = at_;
    const auto blanks = [&](size_t from) {
      while (from < source_.size() &&
             (source_[from] == ' ' || source_[from] == '\t' || source_[from] == '\n'))
        ++from;
      return from;
    };
    at = blanks(at);
    if (source_.compare(at, 3, "raw") != 0) return false;
    at = blanks(at + 3);
    const bool minus = source_.compare(at, 3, "-%}") == 0;
    if (!minus && source_.compare(at, 2, "%}") != 0) return false;
    advance(at - at_);
    after_tag(minus ? '-' : '+', minus ? 3 : 2, false);
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; tag += 2) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      size_t end = blanks(tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
      if (source_.compare(end, 6, "endraw") != 0) continue;
      end = blanks(end + 6);
      const char last = end < source_.size() ? source_[end] : ' ';
      const size_t mark = last == '-' || last == '+' ? 1 : 0;
      if (source_.compare(end + mark, 2, "%}") != 0) continue;
      const std::string_view kept = before_tag(at_, tag, sign, false);
      if (!kept.empty()) add(TokenKind::kText, std::string(kept));
      advance(end - at_);
      after_tag(last, mark + 2, true);
      return true;
    }
    fail("the raw block has no {{% endraw %}}");
  }

  void inside(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    std::string brackets;
    while (true) {
      skip_spaces();
      if (at_ >= source_.size()) fail("the tag has no {}", close);
      if (brackets.empty()) {
        const char sign = source_[at_];
        const bool minus = sign == '-' || (block && sign == '+');
        if (std::string_view(source_).substr(at_ + (minus ? 1 : 0)).starts_with(close)) {
          add(block ? TokenKind::kBlockEnd : TokenKind::kOutputEnd, "");
          return after_tag(sign, minus ? 3 : 2, block);
        }
      }
      token(brackets);
    }
  }

  void token(std::string& brackets) {
    const char byte = source_[at_];
    if (is_name_byte(byte)) {
      size_t end = at_;
      while (end < source_.size() && (is_name_byte(source_[end]) || is_digit(source_[end]))) ++end;
      add(TokenKind::kName, source_.substr(at_, end - at_));
      return advance(end - at_);
    }
    if (is_digit(byte)) return number();
    if (byte == '\'' || byte == '"') return string(byte);
    static constexpr std::array<std::string_view, 28> kSigns{
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
        "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!", "@"};
    const auto* const sign =
        std::ranges::find_if(kSigns, [&](std::string_view each) { return at_text(each); });
    if (sign == kSigns.end() || *sign == "!" || *sign == "@")
      fail("'{}' has no meaning in a tag", source_.substr(at_, character_length(source_, at_)));
    if (*sign == "(" || *sign == "[" || *sign == "{") brackets += byte;
    if (*sign == ")" || *sign == "]" || *sign == "}") {
      const char open = byte == ')' ? '(' : byte == ']' ? '[' : '{';
      if (brackets.empty() || brackets.back() != open) fail("'{}' closes no bracket", byte);
      brackets.pop_back();
    }
    add(TokenKind::kSign, std::string(*sign));
    advance(sign->size());
  }

  void number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() &&
             (is_digit(source_[end]) ||
              (source_[end] == '_' && end + 1 < source_.size() && is_digit(source_[end + 1]))))
        ++end;
    };
    digits();
    bool whole = true;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      whole = false;
      ++end;
      digits();
    }
    if (end + 1 < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t sign = source_[end + 1] == '+' || source_[end + 1] == '-' ? 1 : 0;
      if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
        whole = false;
        end += 1 + sign;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    Token token{.kind = whole ? TokenKind::kInteger : TokenKind::kFloat, .text = text, .line = line_};
    const char* last = text.data() + text.size();
    const std::errc wrong = whole ? std::from_chars(text.data(), last, token.integer).ec
                                  : std::from_chars(text.data(), last, token.number).ec;
    if (wrong != std::errc()) fail("the number {} is too large", text);
    tokens_.push_back(std::move(token));
    advance(end - at_);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("the text has no closing {}", quote);
    add(TokenKind::kString, unescaped(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  static std::string unescaped(std::string_view text) {
    std::string result;
    for (size_t at = 0; at < text.size(); ++at) {
      if (text[at] != '\\' || at + 1 == text.size()) {
        result += text[at];
        continue;
      }
      const char letter = text[++at];
      static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t found = kLetters.find(letter); found != std::string_view::npos) {
        result += kMeant[found];
      } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        at += escaped_character(text, at + 1, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, 16, result);
      } else if (letter >= '0' && letter <= '7') {
        size_t digits = 1;
        while (digits < 3 && at + digits < text.size() && text[at + digits] >= '0' &&
               text[at + digits] <= '7')
          ++digits;
        at += escaped_character(text, at, digits, 8, result) - 1;
      } else if (letter != '\n') {  // a line end goes with its backslash
        result += '\\';
        result += letter;
      }
    }
    return result;
  }

  static size_t escaped_character(std::string_view text, size_t from, size_t digits, int base,
                                  std::string& to) {
    uint32_t code = 0;
    const std::string_view written = text.substr(std::min(from, text.size()), digits);
    const auto read = std::from_chars(written.data(), written.data() + written.size(), code, base);
    const bool good =
        written.size() == digits && read.ec == std::errc() && read.ptr == written.data() + digits;
    if (!good || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      fail("the escape \\{} names no character", text.substr(from - 1));
    append_utf8(to, code);
    return digits;
  }

  std::string source_;
  int& line_;
  size_t at_ = 0;
  bool line_starting_ = true;  // the text that follows begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string source, int& line) {
  line = 1;
  return Lexer(plain_line_ends(source), line).run();
}

}  // namespace longhaul::data::chat
