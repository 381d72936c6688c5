#include "puzzles/engine/answers/literal.h"

#include "base/text/number.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"

namespace longhaul::puzzles {
namespace {

constexpr int kMostDepth = 8;
constexpr int kMostValues = 8192;
constexpr std::string_view kBlanks = " \t\r\n", kMarks = " \t\r\n,:[](){}\"'";

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::optional<Literal> whole() {
    std::optional<Literal> value = read(0);
    skip_blanks();
    if (value && at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n'))
      ++at_;
  }
  bool take(char expected) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  std::optional<Literal> read(int depth) {
    if (depth > kMostDepth || ++values_ > kMostValues) return std::nullopt;
    skip_blanks();
    if (at_ >= text_.size()) return std::nullopt;
    switch (text_[at_]) {
      case '[':
        return list(']', depth);
      case '(':
        return list(')', depth);
      case '{':
        return dictionary(depth);
      case '"':
      case '\'':
        return quoted();
      default:
        return bare();
    }
  }

  std::optional<Literal> list(char end, int depth) {
    ++at_;
    Literal value{.kind = Literal::Kind::kList};
    while (!take(end)) {
      std::optional<Literal> item = read(depth + 1);
      if (!item) return std::nullopt;
      value.items.push_back(std::move(*item));
      if (take(',')) continue;
      if (!take(end)) return std::nullopt;
      break;
    }
    return value;
  }

  std::optional<Literal> dictionary(int depth) {
    ++at_;
    Literal value{.kind = Literal::Kind::kDictionary};
    while (!take('}')) {
      std::optional<Literal> key = read(depth + 1);
      if (!key || !take(':')) return std::nullopt;
      std::optional<Literal> item = read(depth + 1);
      if (!item) return std::nullopt;
      value.items.push_back(std::move(*key));
      value.items.push_back(std::move(*item));
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    return value;
  }

  std::optional<Literal> quoted() {
    const char quote = text_[at_++];
    Literal value{.kind = Literal::Kind::kText};
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return value;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value.text += text_[at_];
    }
    return std::nullopt;
  }

  std::optional<Literal> bare() {
    const size_t begin = at_;
    while (at_ < text_.size() && kMarks.find(text_[at_]) == std::string_view::npos) ++at_;
    if (at_ == begin) return std::nullopt;
    Literal value{.kind = Literal::Kind::kWord, .text = std::string(text_.substr(begin, at_ - begin))};
    if (value.text == "None" || value.text == "null") {
      value.kind = Literal::Kind::kNull;
    } else if (value.text == "True" || value.text == "true" || value.text == "False" ||
               value.text == "false") {
      value.kind = Literal::Kind::kBool;
      value.integer = value.text[0] == 'T' || value.text[0] == 't' ? 1 : 0;
    } else if (const auto integer = read_integer(value.text)) {
      value.kind = Literal::Kind::kInteger;
      value.integer = *integer;
    } else if (is_decimal(value.text)) {
      value.kind = Literal::Kind::kDecimal;
    }
    return value;
  }

  static bool is_decimal(std::string_view text) {
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    const size_t point = text.find('.');
    if (point == std::string_view::npos || text.size() < 2) return false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (i != point && (text[i] < '0' || text[i] > '9')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  int values_ = 0;
};

// Reads [[cell, …], …] of bare and of quoted cells without taking memory for each; what is written in any
// other way is not read.
class CellReader {
 public:
  explicit CellReader(std::string_view text) : text_(text) {}

  std::optional<CellRows> whole() {
    if (text_.size() > kMostValues || !take('[')) return std::nullopt;
    do {
      if (!read_row()) return std::nullopt;
    } while (take(','));
    if (!take(']')) return std::nullopt;
    skip_blanks();
    return at_ == text_.size() ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  static bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }
  void skip_blanks() {
    while (at_ < text_.size() && is_one_of(text_[at_], kBlanks)) ++at_;
  }
  bool take(char expected) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  bool read_row() {
    if (!take('[')) return false;
    std::vector<std::string_view>& cells = found_.rows.emplace_back();
    if (found_.rows.size() > 1) cells.reserve(found_.rows[0].size());
    do {
      skip_blanks();
      if (at_ >= text_.size()) return false;
      const char first = text_[at_];
      const bool quoted = first == '"' || first == '\'';
      const size_t begin = quoted ? ++at_ : at_;
      while (at_ < text_.size() &&
             (quoted ? text_[at_] != first && text_[at_] != '\\' : !is_one_of(text_[at_], kMarks)))
        ++at_;
      if (at_ >= text_.size() || (quoted ? text_[at_] != first : at_ == begin)) return false;
      cells.push_back(trimmed(text_.substr(begin, at_ - begin)));
      if (quoted) ++at_;
    } while (take(','));
    return take(']');
  }

  std::string_view text_;
  size_t at_ = 0;
  CellRows found_;
};

std::optional<std::vector<std::vector<std::string>>> rows_of(const Literal& value) {
  if (!value.is_list() || value.items.empty()) return std::nullopt;
  std::vector<std::vector<std::string>> rows;
  for (const Literal& row : value.items) {
    if (!row.is_list()) return std::nullopt;
    std::vector<std::string>& cells = rows.emplace_back();
    for (const Literal& cell : row.items) {
      if (cell.is_list() || cell.kind == Literal::Kind::kDictionary) return std::nullopt;
      cells.emplace_back(trimmed(cell.text));
    }
  }
  return rows;
}

// [[1 X,2 3]]
std::optional<std::vector<std::vector<std::string>>> rows_between_commas(std::string_view payload) {
  payload = trimmed(payload);
  if (!payload.starts_with("[[") || !payload.ends_with("]]")) return std::nullopt;
  payload = payload.substr(2, payload.size() - 4);
  if (payload.find_first_of("[](){}") != std::string_view::npos) return std::nullopt;
  std::vector<std::vector<std::string>> rows;
  for (const std::string& row : words_between(payload, ',')) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (std::string& cell : words_between(row, ' ')) {
      if (!cell.empty()) cells.push_back(std::move(cell));
    }
    if (rows.size() > 1000) return std::nullopt;
  }
  return rows;
}

}  // namespace

std::optional<Literal> read_literal(std::string_view text) { return LiteralReader(text).whole(); }

std::optional<std::pair<int64_t, int64_t>> read_pair(const Literal& value) {
  if (!value.is_list() || value.items.size() != 2) return std::nullopt;
  for (const Literal& item : value.items) {
    if (item.kind != Literal::Kind::kInteger) return std::nullopt;
  }
  return std::pair(value.items[0].integer, value.items[1].integer);
}

std::optional<int64_t> read_integer(std::string_view text) {
  text = trimmed(text);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.size() > 18 || (digits[0] == '0' && text.size() > 1)) return std::nullopt;
  return parse_number<int64_t>(text);
}

std::optional<int64_t> read_grouped_integer(std::string_view text) {
  text = trimmed(text);
  const size_t first = text.find(',');
  if (first == std::string_view::npos) return read_integer(text);
  const size_t sign = text.starts_with('-') ? 1 : 0;
  if (first == sign || first > sign + 3) return std::nullopt;
  std::string digits(text.substr(0, first));
  for (size_t at = first; at < text.size(); at += 4) {
    if (text[at] != ',' || at + 4 > text.size()) return std::nullopt;
    digits += text.substr(at + 1, 3);
  }
  return read_integer(digits);
}

std::vector<std::string> words_between(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, separator)) words.emplace_back(trimmed(word));
  return words;
}

std::optional<CellRows> read_grid(std::string_view payload) {
  if (std::optional<CellRows> plain = CellReader(payload).whole()) return plain;
  std::optional<std::vector<std::vector<std::string>>> own;
  if (const std::optional<Literal> value = read_literal(payload)) {
    own = rows_of(*value);
  } else {
    own = rows_between_commas(payload);
  }
  if (!own) return std::nullopt;
  CellRows cells{.own = std::move(*own)};
  for (const std::vector<std::string>& row : cells.own) cells.rows.emplace_back(row.begin(), row.end());
  return cells;
}

}  // namespace longhaul::puzzles
