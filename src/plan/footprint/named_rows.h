// Rows by the names of their columns, from small tables that people write (base/text/csv.h): the first row
// has the names, and lines that begin with # are comments. Every error names file, line and column.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::plan {

class NamedRow {
 public:
  NamedRow(std::string where, std::map<std::string, std::string> cells)
      : where_(std::move(where)), cells_(std::move(cells)) {}
  const std::string& text(const std::string& column) const;
  double number(const std::string& column, const std::string& unit, double least, double most) const;
  [[noreturn]] void fail(const std::string& column, const std::string& expected) const;

 private:
  std::string where_;  // "file.csv:3"
  std::map<std::string, std::string> cells_;
};

// The table must have exactly these columns, in any order; kUsage otherwise.
std::vector<NamedRow> read_named_rows(std::string_view text, const std::string& name,
                                      const std::vector<std::string>& columns);

}  // namespace longhaul::plan
