// Buggy tables: faulty code exported a table, and the fault is known; undo it, keep some rows, compare two
// columns. given: {"rows": [[cell, …], …], "fault": {"kind": "rotate_rows"}, "flat": false, "conditions":
// [[column, ">", 5], [column, "between", 3, 7], …], "query": ["mean", column, column]}; the rows are the true
// table, and "fault" holds what else the exported text depends on: "cells" of error, "added" of add_end_row
// and add_end_column. The public verifier reads the answer alone. Source: docs/puzzles.md#buggy_tables.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::buggy_tables {

struct Column {
  std::string_view name;
  int64_t least = 0, most = 0;  // both 0: it holds no numbers
  bool has_numbers() const { return most > 0; }
};
inline constexpr size_t kColumns = 18;
extern const std::array<Column, kColumns> kAllColumns;

// Those from kAddEndRow on write a list, never a table.
enum class Fault : uint8_t {
  kError,
  kMergeRows,
  kRotateColumns,
  kRotateRows,
  kAddEndRow,
  kAddEndColumn,
  kNull
};
inline constexpr std::array<std::string_view, 7> kFaultNames = {
    "error", "merge_rows", "rotate_columns", "rotate_rows", "add_end_row", "add_end_column", "null"};

using Cells = std::vector<std::string>;  // "" is null
struct Condition {
  size_t column = 0;
  std::string relation;  // < <= > >= == != between
  int64_t value = 0, upper = 0;
};
struct Given {
  std::vector<Cells> rows;
  Fault fault = Fault::kError;
  std::vector<std::pair<size_t, size_t>> error_cells;  // row, column
  Cells added;
  bool flat = false;
  std::vector<Condition> conditions;
  std::string statistic;  // mean, median, stdev, variance, sum, max, min
  size_t first = 0, second = 0;
};
Given read_given(const nlohmann::json& given);

// |statistic of the first column − of the second| over the rows kept, in hundredths, rounded;
//     0 where no row is kept or values are too few.
// None: it lies too near to the middle of two hundredths to be rounded for certain.
std::optional<int64_t> answer_of(const Given& given);
// The rows that meet all conditions; a condition on a null is false.
std::vector<size_t> kept_rows(const Given& given);

// What the faulty code wrote: lines of a table, or one list.
std::vector<Cells> exported_rows(const Given& given);  // of the faults whose result is a table
Cells exported_list(const Given& given);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::buggy_tables
