#include "recipe/options/toml_guard.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::recipe {

namespace {

constexpr size_t kDeepestBrackets = 16;
constexpr int kDeepestKey = 16;  // parts of a dotted key

bool is_key_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '"' || c == '\'';
}

// Knows strings, comments and brackets. Malformed quoting may mislead it, but there the parser stops, so that
// nothing after that place is ever built.
class Guard {
 public:
  Guard(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void run() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // byte order mark
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        new_line();
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        line_is_blank_ = false;
        quoted(c);
      } else {
        plain(c);
        line_is_blank_ = line_is_blank_ && (c == ' ' || c == '\t');
        ++at_;
      }
    }
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  [[noreturn]] void refuse(std::string_view found) const {
    refuse_toml(name_, line_, static_cast<int64_t>(at_ - line_start_) + 1, found);
  }

  void new_line() {
    ++at_;
    ++line_;
    line_start_ = at_;
    line_is_blank_ = true;
    dots_ = 0;
  }

  void plain(char c) {
    if (static_cast<unsigned char>(c) >= 0x80) refuse("a character that needs quotes around it");
    if (c == '[' && line_is_blank_ && open_.empty()) header();
    if (c == '[' || c == '{') open_ += c;
    if (c == ']' || c == '}') {
      if (!open_.ends_with(c == ']' ? '[' : '{')) refuse(fmt::format("a {} that closes nothing", c));
      open_.pop_back();
    }
    if (c == '.') {
      ++dots_;
    } else if (c == '[' || c == '{' || c == ',' || c == '=') {
      dots_ = 0;
    }
    if (open_.size() > kDeepestBrackets || dots_ >= kDeepestKey)
      refuse(fmt::format("nesting deeper than {} levels", kDeepestKey));
  }

  // "[key" or "[[key".
  void header() const {
    size_t ahead = peek(1) == '[' ? 2 : 1;
    while (peek(ahead) == ' ' || peek(ahead) == '\t') ++ahead;
    if (!is_key_start(peek(ahead)) && peek(ahead) != ']') refuse("a heading without a name");
  }

  void quoted(char quote) {
    const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
    const bool many_lines = text_.substr(at_, 3) == triple;
    at_ += many_lines ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (quote == '"' && c == '\\') {
        if (std::string_view(" \t\r\n").find(peek(1)) != std::string_view::npos)
          refuse("a line that continues after \\; write it as one line");
        at_ += 2;
      } else if (many_lines ? text_.substr(at_, 3) == triple : c == quote) {
        at_ += many_lines ? 3 : 1;
        return;
      } else if (c == '\n') {
        if (!many_lines) return;  // an error; the parser says so
        new_line();
      } else {
        ++at_;
      }
    }
    at_ = text_.size();
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0, line_start_ = 0;
  int64_t line_ = 1;
  bool line_is_blank_ = true;  // so far
  std::string open_;           // brackets
  int dots_ = 0;
};

}  // namespace

void refuse_toml(const std::string& name, int64_t line, int64_t column, std::string_view found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "the recipe is not valid TOML",
               .expected = "lines of key = value under [section] headings, text in quotes",
               .found = std::string(found),
               .where = fmt::format("{}:{}:{}", name, line, column),
               .hint = "recipes/first-run.toml is a working example"});
}

void guard_toml(std::string_view text, const std::string& name) { Guard(text, name).run(); }

}  // namespace longhaul::recipe
