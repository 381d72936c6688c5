#include <algorithm>
#include <cmath>

#include "puzzles/buggy_tables/buggy_tables.h"

namespace longhaul::puzzles::buggy_tables {
namespace {

std::vector<int64_t> values_of(const Given& given, const std::vector<size_t>& rows, size_t column) {
  std::vector<int64_t> values;
  for (const size_t row : rows) {
    if (!given.rows[row][column].empty()) values.push_back(std::stoll(given.rows[row][column]));
  }
  return values;
}

// None: there are too few values. Sums are exact in whole numbers, so that machines agree.
std::optional<double> statistic_of(std::string_view name, std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  const bool spread = name == "stdev" || name == "variance";
  if (count < (spread ? 2 : 1)) return std::nullopt;
  std::ranges::sort(values);
  int64_t sum = 0, squares = 0;
  for (const int64_t value : values) sum += value, squares += value * value;
  if (name == "sum") return static_cast<double>(sum);
  if (name == "max") return static_cast<double>(values.back());
  if (name == "min") return static_cast<double>(values.front());
  if (name == "mean") return static_cast<double>(sum) / static_cast<double>(count);
  if (name == "median")
    return static_cast<double>(values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  const double variance =
      static_cast<double>(count * squares - sum * sum) / static_cast<double>(count * (count - 1));
  return name == "variance" ? variance : std::sqrt(variance);
}

bool holds(const Condition& condition, const std::string& cell) {
  if (cell.empty()) return false;
  const int64_t value = std::stoll(cell);
  if (condition.relation == "<") return value < condition.value;
  if (condition.relation == "<=") return value <= condition.value;
  if (condition.relation == ">") return value > condition.value;
  if (condition.relation == ">=") return value >= condition.value;
  if (condition.relation == "==") return value == condition.value;
  if (condition.relation == "!=") return value != condition.value;
  return value >= condition.value && value <= condition.upper;
}

}  // namespace

std::vector<size_t> kept_rows(const Given& given) {
  std::vector<size_t> kept;
  for (size_t row = 0; row < given.rows.size(); ++row) {
    if (std::ranges::all_of(given.conditions,
                            [&](const Condition& one) { return holds(one, given.rows[row][one.column]); }))
      kept.push_back(row);
  }
  return kept;
}

std::optional<int64_t> answer_of(const Given& given) {
  const std::vector<size_t> kept = kept_rows(given);
  const auto first = statistic_of(given.statistic, values_of(given, kept, given.first)),
             second = statistic_of(given.statistic, values_of(given, kept, given.second));
  if (!first || !second) return 0;
  const double hundredths = std::abs(*first - *second) * 100, whole = std::floor(hundredths);
  constexpr double kNear = 1e-4;  // in hundredths
  if (std::abs(hundredths - whole - 0.5) < kNear) return std::nullopt;
  return static_cast<int64_t>(whole) + (hundredths - whole > 0.5 ? 1 : 0);
}

std::vector<Cells> exported_rows(const Given& given) {
  std::vector<Cells> rows = given.rows;
  const size_t count = rows.size();
  if (given.fault == Fault::kError) {
    for (const auto& [row, column] : given.error_cells) rows[row][column] = "ERROR";
  } else if (given.fault == Fault::kRotateColumns) {
    for (size_t row = 0; row < count; ++row) {
      for (size_t column = 0; column < kColumns; ++column)
        rows[(row + column) % count][column] = given.rows[row][column];
    }
  } else if (given.fault == Fault::kRotateRows) {
    for (size_t row = 0; row < count; ++row) {
      for (size_t column = 0; column < kColumns; ++column)
        rows[row][(column + row) % kColumns] = given.rows[row][column];
    }
  } else {
    rows.resize((count + 1) / 2);
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t column = 0; column < kColumns; ++column)
        rows[row][column] = given.rows[2 * row][column] + " && " +
                            (2 * row + 1 < count ? given.rows[2 * row + 1][column] : "null");
    }
  }
  return rows;
}

Cells exported_list(const Given& given) {
  Cells list;
  const size_t count = given.rows.size();
  size_t added = 0;
  const auto add = [&](size_t more) {
    for (size_t i = 0; i < more; ++i) list.push_back(given.added.at(added++));
  };
  if (given.fault == Fault::kAddEndColumn) {
    for (size_t column = 0; column < kColumns; ++column) {
      for (size_t row = 0; row < count; ++row) list.push_back(given.rows[row][column]);
      add(column);
    }
    return list;
  }
  const bool rows_are_whole = given.fault == Fault::kAddEndRow || given.fault == Fault::kNull;
  size_t place = 0;
  for (const Cells& row : rows_are_whole ? given.rows : exported_rows(given)) {
    for (const std::string& cell : row) {
      if (given.fault != Fault::kNull || !cell.empty()) list.push_back(cell);
    }
    if (given.fault == Fault::kAddEndRow) add(place++);
  }
  return list;
}

}  // namespace longhaul::puzzles::buggy_tables
