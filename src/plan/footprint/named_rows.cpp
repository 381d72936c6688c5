#include "plan/footprint/named_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text/csv.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::plan {
const std::string& NamedRow::text(const std::string& column) const {
  const std::string& cell = cells_.at(column);
  if (cell.empty()) fail(column, "a word");
  return cell;
}

double NamedRow::number(const std::string& column, const std::string& unit, double least, double most) const {
  const std::string& cell = cells_.at(column);
  const std::optional<double> value = parse_number<double>(cell);
  if (!value || !(*value >= least && *value <= most))
    fail(column, fmt::format("a number of {} from {:g} to {:g}", unit, least, most));
  return *value;
}

void NamedRow::fail(const std::string& column, const std::string& expected) const {
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot read the table",
               .expected = expected,
               .found = printable(brief(cells_.at(column))),
               .where = fmt::format("{}, column {}", where_, column)});
}

std::vector<NamedRow> read_named_rows(std::string_view text, const std::string& name,
                                      const std::vector<std::string>& columns) {
  CsvReader reader(text, {.code = ExitCode::kUsage, .where = name, .comments = true});
  const auto refuse = [&](std::string found) {
    reader.fail(fmt::format("the columns {}", fmt::join(columns, ",")), std::move(found));
  };
  std::vector<std::string_view> cells;
  std::vector<NamedRow> rows;
  if (!reader.next(cells)) return rows;
  const std::vector<std::string> header(cells.begin(), cells.end());
  if (!std::ranges::is_permutation(header, columns))
    refuse(printable(brief(fmt::format("{}", fmt::join(header, ",")))));
  while (reader.next(cells)) {
    if (cells.size() != header.size()) refuse(counted(static_cast<int64_t>(cells.size()), "cell"));
    std::map<std::string, std::string> row;
    for (size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    rows.emplace_back(fmt::format("{}:{}", name, reader.line()), std::move(row));
  }
  return rows;
}

}  // namespace longhaul::plan
