// CSV: rows of cells that commas separate (RFC 4180). Lines end with "\n" or "\r\n"; blank lines are passed
// over, and so is a byte-order mark. Blanks around a cell do not belong to it. A cell that begins with a
// quotation mark ends with the next one: it may hold commas and line ends, and two marks in it stand for one.
//
//   CsvReader rows(text, {.what = "cannot read the metrics", .where = "cpu_usage.csv"});
//   for (std::vector<std::string_view> cells; rows.next(cells);) use(cells, rows.line());
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul {

// CsvRules: how a kind of file is read, and the words of its errors.
struct CsvRules {
  ExitCode code = ExitCode::kData;
  std::string what = "cannot read the table";
  std::string where;      // the file
  bool comments = false;  // lines that begin with # are passed over
};

// Not thread-safe. The text must outlive it.
class CsvReader {
 public:
  CsvReader(std::string_view text, CsvRules rules);
  // The cells of the next row, valid until the next call; false: there is none. Fails where a quotation mark
  // has no end, or something other than blanks follows one.
  bool next(std::vector<std::string_view>& cells);
  int64_t line() const { return line_; }  // the line on which that row begins, from 1
  // An Error about that row: "cpu_usage.csv:3".
  [[noreturn]] void fail(std::string expected, std::string found) const;

 private:
  std::string_view quoted_cell();
  std::string_view cell();
  bool at_line_end() const { return rest_.empty() || rest_.front() == '\n'; }
  void skip_blanks();

  std::string_view rest_;
  CsvRules rules_;
  int64_t line_ = 0, next_line_ = 1;
  std::deque<std::string> made_;  // cells of this row in which marks were doubled
};

// A cell that reads as `text`: in quotation marks where it must be.
std::string csv_cell(std::string_view text);

}  // namespace longhaul
