#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/splitting/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/error.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

namespace {

constexpr std::string_view kSpaceSet =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::array<std::string_view, 29> kCategoryNames = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

[[noreturn]] void refuse(std::string_view what, std::string_view pattern, const std::string& where) {
  throw Error({.code = ExitCode::kData,
               .what = "cannot use a regular expression of the tokenizer",
               .expected = "groups, alternatives, character classes, \\s \\S \\d \\D \\w \\W \\p{…}, "
                           "quantifiers and look-around",
               .found = fmt::format("{} in {}", what, pattern),
               .where = where});
}

// True if PCRE2's own table differs from that of `tokenizers` for the category. To ask PCRE2 only about the
// code points at which our table changes is not enough, so all code points above the Latin ones are asked,
// once per category; a category costs 20 ms.
std::string missing_members(std::string_view name) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string pattern = fmt::format("^\\p{{{}}}+", name);
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr),
      pcre2_code_free);
  LONGHAUL_ASSERT(code != nullptr, "category {}", name);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  std::string set;
  std::string run;
  char32_t first = 0;
  char32_t next = 0;
  // A run of members must match to its end; the character after a shorter match is missing from PCRE2's
  // table.
  const auto flush = [&] {
    size_t at = 0;
    char32_t code_point = first;
    while (at < run.size()) {
      const int count = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(run.data() + at),
                                    run.size() - at, 0, PCRE2_NO_UTF_CHECK, data.get(), nullptr);
      const size_t known = count > 0 ? pcre2_get_ovector_pointer(data.get())[1] : 0;
      for (const size_t stop = at + known; at < stop; ++code_point) {
        at += static_cast<size_t>(decode_utf8(run.data() + at, run.data() + run.size()).length);
      }
      const char32_t missing = code_point;
      while (at < run.size()) {
        const Decoded decoded = decode_utf8(run.data() + at, run.data() + run.size());
        if (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(run.data() + at),
                        static_cast<size_t>(decoded.length), 0, PCRE2_NO_UTF_CHECK, data.get(),
                        nullptr) > 0) {
          break;
        }
        at += static_cast<size_t>(decoded.length);
        ++code_point;
      }
      if (code_point > missing) {
        set += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(missing),
                           static_cast<uint32_t>(code_point - 1));
      }
    }
    run.clear();
  };
  for (char32_t point = 0x100; point < 0x110000; ++point) {
    const bool member = kCategoryNames[static_cast<size_t>(category_of(point))].starts_with(name);
    if (!member || (point >= 0xD800 && point < 0xE000)) continue;
    if (point != next || run.empty()) {
      flush();
      first = point;
    }
    append_utf8(run, point);
    next = point + 1;
  }
  flush();
  return set;
}

// Rewrites an Oniguruma pattern for PCRE2.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string translate() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '}' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '+') {
        refuse("{…}+, which means another thing in the two syntaxes,", pattern_, where_);
      } else {
        out_.push_back(c);
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  void group() {
    const std::string_view rest = pattern_.substr(at_);
    static constexpr std::array<std::string_view, 8> kOpenings = {"(?:",  "(?=",  "(?!",  "(?>",
                                                                  "(?i:", "(?i)", "(?<=", "(?<!"};
    for (const std::string_view opening : kOpenings) {
      if (rest.starts_with(opening)) {
        out_ += opening;
        at_ += opening.size();
        return;
      }
    }
    if (rest.starts_with("(?") || rest.starts_with("(*"))
      refuse(fmt::format("the group {}…", rest.substr(0, 4)), pattern_, where_);
    out_.push_back('(');
    ++at_;
  }

  void escape(bool in_class) {
    if (at_ + 1 >= pattern_.size()) refuse("a backslash at the end", pattern_, where_);
    const char c = pattern_[at_ + 1];
    at_ += 2;
    const auto set = [&](const std::string& members, bool negated) {
      if (!in_class) {
        out_ += fmt::format("[{}{}]", negated ? "^" : "", members);
      } else if (negated) {
        refuse(fmt::format("\\{} inside a character class", c), pattern_, where_);
      } else {
        out_ += members;
      }
    };
    switch (c) {
      case 's':
        return set(std::string(kSpaceSet), false);
      case 'S':
        if (in_class) refuse("\\S inside a character class", pattern_, where_);
        return set(std::string(kSpaceSet), true);
      case 'd':
        return set(property_set("Nd"), false);
      case 'D':
        return set(property_set("Nd"), true);
      case 'w':
        return set(word_set(), false);
      case 'W':
        return set(word_set(), true);
      case 'p':
      case 'P': {
        const size_t close = pattern_.find('}', at_);
        if (at_ >= pattern_.size() || pattern_[at_] != '{' || close == std::string_view::npos)
          refuse("\\p without {…}", pattern_, where_);
        const std::string_view name = pattern_.substr(at_ + 1, close - at_ - 1);
        at_ = close + 1;
        return set(property_set(name), c == 'P');
      }
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'v':
        out_ += c == 'v' ? std::string("\\x0b") : fmt::format("\\{}", c);
        return;
      case 'x': {
        if (at_ < pattern_.size() && pattern_[at_] == '{') {
          const size_t close = pattern_.find('}', at_);
          if (close == std::string_view::npos) refuse("\\x{ without }", pattern_, where_);
          out_ += "\\x" + std::string(pattern_.substr(at_, close + 1 - at_));
          at_ = close + 1;
          return;
        }
        refuse("\\x without {…}", pattern_, where_);
      }
      case 'u': {
        const std::string_view digits = pattern_.substr(at_, 4);
        if (digits.size() != 4 ||
            digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
          refuse("\\u without four digits", pattern_, where_);
        }
        out_ += fmt::format("\\x{{{}}}", digits);
        at_ += 4;
        return;
      }
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
          refuse(fmt::format("\\{}", c), pattern_, where_);
        out_.push_back('\\');
        out_.push_back(c);
    }
  }

  // \p{name} inside a class: PCRE2's own property and the members that it does not know yet.
  const std::string& property_set(std::string_view name) {
    static const std::array<std::string_view, 7> kGroups = {"L", "M", "N", "P", "S", "Z", "C"};
    const auto kept = property_sets_.find(name);
    if (kept != property_sets_.end()) return kept->second;
    std::string set = fmt::format("\\p{{{}}}", name);
    const bool known = std::ranges::find(kCategoryNames, name) != kCategoryNames.end() ||
                       std::ranges::find(kGroups, name) != kGroups.end();
    if (known && name[0] != 'C') {
      set += missing_members(name);
    } else if (name == "Cn" || name == "C" || name == "Any" || name.starts_with("Is") ||
               name.starts_with("^")) {
      // Scripts and other properties use PCRE2's own tables; "unassigned" would mean something else in two
      // versions of Unicode.
      refuse(fmt::format("\\p{{{}}}", name), pattern_, where_);
    }
    return property_sets_.emplace(name, std::move(set)).first->second;
  }

  std::string word_set() {
    std::string set;
    for (const std::string_view name : {"L", "M", "Nd", "Nl", "Pc"}) set += property_set(name);
    return set +
           R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
  }

  void character_class() {
    out_.push_back('[');
    ++at_;
    if (at_ < pattern_.size() && pattern_[at_] == '^') {
      out_.push_back('^');
      ++at_;
    }
    bool first = true;
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == ']' && !first) {
        out_.push_back(']');
        ++at_;
        return;
      }
      if (c == ']' || c == '[') refuse("a bracket inside a character class", pattern_, where_);
      if (pattern_.substr(at_).starts_with("&&")) refuse("&& inside a character class", pattern_, where_);
      if (c == '\\') {
        escape(true);
      } else {
        out_.push_back(c);
        ++at_;
      }
      first = false;
    }
    refuse("a character class without ]", pattern_, where_);
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  size_t at_ = 0;
  // A pattern names the same few sets repeatedly.
  std::map<std::string, std::string, std::less<>> property_sets_;
};

struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr);
  MatchData() { pcre2_jit_stack_assign(context, nullptr, stack); }
  ~MatchData() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  std::string pattern;
  std::string where;
  uint32_t lookbehind = 0;
  ~Compiled() { pcre2_code_free(code); }

  // 1: matched, 0: no match, -1: the match touches the end of the text (with PCRE2_PARTIAL_HARD).
  int match(std::string_view text, size_t from, uint32_t options, Match& found) const {
    thread_local MatchData scratch;
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  options | PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
    if (count == PCRE2_ERROR_NOMATCH) return 0;
    if (count == PCRE2_ERROR_PARTIAL) return -1;
    if (count < 0) {
      std::array<PCRE2_UCHAR, 128> message{};
      pcre2_get_error_message(count, message.data(), message.size());
      throw Error({.code = ExitCode::kData,
                   .what = "a regular expression of the tokenizer failed on the text",
                   .found = reinterpret_cast<const char*>(message.data()),
                   .where = fmt::format("{}, pattern {}", where, pattern)});
    }
    const PCRE2_SIZE* vector = pcre2_get_ovector_pointer(scratch.data);
    found = {static_cast<int64_t>(vector[0]), static_cast<int64_t>(vector[1])};
    return 1;
  }
};

Regex::Regex(std::string_view pattern, const std::string& where) {
  if (pattern.size() > 64 * 1024) refuse("a pattern of more than 64 KiB", pattern.substr(0, 80), where);
  if (!valid_utf8(pattern)) refuse("bad UTF-8", "the pattern", where);
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  compiled->where = where;
  const std::string translated = Translator(pattern, where).translate();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    refuse(reinterpret_cast<const char*>(message.data()), pattern, where);
  }
  // Without JIT the interpreter is used.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  pcre2_pattern_info(compiled->code, PCRE2_INFO_MAXLOOKBEHIND, &compiled->lookbehind);
  compiled_ = std::move(compiled);
}

Regex Regex::literal(std::string_view text, const std::string& where) {
  std::string pattern;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c)) && c > ' ')
      pattern.push_back('\\');
    pattern.push_back(c);
  }
  return Regex(pattern, where);
}

namespace {

// The same length, with a control character for every bad byte, so that positions do not change.
std::string_view matchable(std::string_view text, std::string& storage) {
  if (valid_utf8(text)) return text;
  storage = text;
  for (size_t at = 0; at < storage.size();) {
    const Decoded decoded = decode_utf8(storage.data() + at, storage.data() + storage.size());
    if (decoded.code == kBadByte) storage[at] = '\x1A';
    at += static_cast<size_t>(decoded.length);
  }
  return storage;
}

}  // namespace

std::vector<Match> Regex::matches(std::string_view text) const {
  std::string storage;
  text = matchable(text, storage);
  std::vector<Match> found;
  size_t from = 0;
  int64_t last_end = -1;
  Match match{};
  while (from <= text.size() && compiled_->match(text, from, 0, match) == 1) {
    if (match.end == match.begin) {
      // An empty match right after the previous one does not count; in both cases the search moves on by one
      // character.
      const bool repeated = match.end == last_end;
      const size_t here = static_cast<size_t>(match.end);
      from =
          here < text.size()
              ? here + static_cast<size_t>(decode_utf8(text.data() + here, text.data() + text.size()).length)
              : here + 1;
      if (repeated) continue;
    } else {
      from = static_cast<size_t>(match.end);
    }
    last_end = match.end;
    found.push_back(match);
  }
  return found;
}

int64_t Regex::last_settled_end(std::string_view text) const {
  if (compiled_->lookbehind > 0) return 0;
  std::string storage;
  text = matchable(text, storage);
  size_t from = 0;
  Match match{};
  while (from < text.size() && compiled_->match(text, from, PCRE2_PARTIAL_HARD, match) == 1 &&
         match.end > match.begin) {
    from = static_cast<size_t>(match.end);
  }
  return static_cast<int64_t>(from);
}

}  // namespace longhaul::data
