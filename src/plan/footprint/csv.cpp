#include "plan/footprint/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::plan {
namespace {

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (const std::string_view cell : split(line, ',')) cells.emplace_back(trimmed(cell));
  return cells;
}

}  // namespace

const std::string& CsvRow::text(const std::string& column) const {
  const std::string& cell = cells_.at(column);
  if (cell.empty()) fail(column, "a word");
  return cell;
}

double CsvRow::number(const std::string& column, const std::string& unit, double least, double most) const {
  const std::string& cell = cells_.at(column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !(value >= least && value <= most)) {
    fail(column, fmt::format("a number of {} from {:g} to {:g}", unit, least, most));
  }
  return value;
}

void CsvRow::fail(const std::string& column, const std::string& expected) const {
  throw Error({.code = ExitCode::kUsage,
               .what = "cannot read the table",
               .expected = expected,
               .found = printable(brief(cells_.at(column))),
               .where = fmt::format("{}, column {}", where_, column)});
}

std::vector<CsvRow> read_csv(std::string_view text, const std::string& name,
                             const std::vector<std::string>& columns) {
  std::vector<std::string> header;
  std::vector<CsvRow> rows;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> cells = cells_of(line);
    const auto refuse = [&](const std::string& found) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "cannot read the table",
                   .expected = fmt::format("the columns {}", fmt::join(columns, ",")),
                   .found = found,
                   .where = fmt::format("{}:{}", name, number)});
    };
    if (header.empty()) {
      header = cells;
      if (!std::ranges::is_permutation(header, columns)) refuse(printable(brief(line)));
      continue;
    }
    if (cells.size() != header.size()) refuse(counted(static_cast<int64_t>(cells.size()), "cell"));
    std::map<std::string, std::string> row;
    for (size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    rows.emplace_back(fmt::format("{}:{}", name, number), std::move(row));
  }
  return rows;
}

}  // namespace longhaul::plan
