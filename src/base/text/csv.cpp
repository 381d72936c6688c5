#include "base/text/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"

namespace longhaul {
namespace {

bool is_csv_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

CsvReader::CsvReader(std::string_view text, CsvRules rules) : rest_(text), rules_(std::move(rules)) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
}

void CsvReader::fail(std::string expected, std::string found) const {
  throw Error({.code = rules_.code,
               .what = rules_.what,
               .expected = std::move(expected),
               .found = std::move(found),
               .where = fmt::format("{}:{}", rules_.where, std::max<int64_t>(1, line_))});
}

void CsvReader::skip_blanks() {
  while (!rest_.empty() && is_csv_blank(rest_.front())) rest_.remove_prefix(1);
}

// From the opening mark to the closing one.
std::string_view CsvReader::quoted_cell() {
  rest_.remove_prefix(1);
  std::string whole;
  bool doubled = false;
  for (;;) {
    const size_t mark = rest_.find('"');
    if (mark == std::string_view::npos) fail("a quotation mark that ends the cell", "none");
    const std::string_view piece = rest_.substr(0, mark);
    next_line_ += std::ranges::count(piece, '\n');
    rest_.remove_prefix(mark + 1);
    const bool more = rest_.starts_with('"');
    if (!more && !doubled) return piece;
    whole += piece;
    if (!more) return made_.emplace_back(std::move(whole));
    whole += '"';
    doubled = true;
    rest_.remove_prefix(1);
  }
}

std::string_view CsvReader::cell() {
  skip_blanks();
  if (rest_.starts_with('"')) {
    const std::string_view quoted = quoted_cell();
    skip_blanks();
    if (!at_line_end() && rest_.front() != ',')
      fail("a comma or the end of the line after a quotation mark", brief(printable(rest_.substr(0, 40))));
    return quoted;
  }
  const size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
  std::string_view plain = rest_.substr(0, end);
  rest_.remove_prefix(end);
  while (!plain.empty() && is_csv_blank(plain.back())) plain.remove_suffix(1);
  return plain;
}

bool CsvReader::next(std::vector<std::string_view>& cells) {
  cells.clear();
  made_.clear();
  for (;;) {
    skip_blanks();
    const bool comment = rules_.comments && rest_.starts_with('#');
    if (!comment && !at_line_end()) break;
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      rest_ = {};
      return false;
    }
    rest_.remove_prefix(end + 1);
    ++next_line_;
  }
  line_ = next_line_;
  cells.push_back(cell());
  while (rest_.starts_with(',')) {
    rest_.remove_prefix(1);
    cells.push_back(cell());
  }
  if (!rest_.empty()) rest_.remove_prefix(1);
  ++next_line_;
  return true;
}

std::string csv_cell(std::string_view text) {
  const bool plain = text.find_first_of(",\"\r\n") == std::string_view::npos && !text.starts_with('#') &&
                     (text.empty() || (!is_csv_blank(text.front()) && !is_csv_blank(text.back())));
  if (plain) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + '"';
}

}  // namespace longhaul
