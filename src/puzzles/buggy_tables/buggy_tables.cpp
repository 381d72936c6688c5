#include "puzzles/buggy_tables/buggy_tables.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::buggy_tables {

const std::array<Column, kColumns> kAllColumns = {{{"date"},
                                                   {"num_steps", 1000, 20000},
                                                   {"study_minutes", 0, 360},
                                                   {"exercise_minutes", 0, 120},
                                                   {"sleep_minutes", 300, 600},
                                                   {"bed_time"},
                                                   {"num_messages", 0, 200},
                                                   {"num_emails", 0, 50},
                                                   {"num_calls", 0, 15},
                                                   {"calories_burned", 1500, 3500},
                                                   {"weekday"},
                                                   {"calories_consumed", 1200, 3000},
                                                   {"num_meetings", 0, 8},
                                                   {"coding_minutes", 0, 480},
                                                   {"num_tasks_completed", 0, 20},
                                                   {"water_intake_ml", 500, 3000},
                                                   {"phone_screen_time_minutes", 30, 360},
                                                   {"music_listening_minutes", 0, 240}}};

namespace {

constexpr size_t kMostRows = 120;
constexpr int64_t kZeroPercent = 5;  // of the puzzles whose answer is 0.00 that are kept
constexpr Knob kKnobs[] = {{"rows", 6, kMostRows, 8, 30, "rows of the table"},
                           {"rate_percent", 1, 50, 5, 35,
                            "percent of cells that are ERROR or null, where the fault is of that kind"},
                           {"conditions", 1, 5, 1, 4, "conditions that a row must meet"}};
constexpr std::array<std::string_view, 7> kStatistics = {"mean", "median", "stdev", "variance",
                                                         "sum",  "max",    "min"};
constexpr std::array<std::string_view, 7> kRelations = {"<", "<=", ">", ">=", "==", "!=", "between"};

// A day of 2024, which began on a Monday.
std::string date_of(int64_t day) {
  constexpr int64_t kMonths[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t month = 0;
  while (day >= kMonths[month]) day -= kMonths[month++];
  return fmt::format("2024-{:02}-{:02}", month + 1, day + 1);
}

std::string random_cell(size_t column, int64_t day, Draw& draw) {
  static constexpr const char* kWeekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                              "Friday", "Saturday", "Sunday"};
  if (kAllColumns[column].has_numbers())
    return std::to_string(draw.between(kAllColumns[column].least, kAllColumns[column].most));
  if (column == 0) return date_of(day);
  if (column == 5) return fmt::format("{}:{:02}", draw.between(21, 23), draw.between(0, 59));
  return kWeekdays[day % 7];
}

size_t random_number_column(Draw& draw) {
  for (;;) {
    const size_t column = draw.below(kColumns);
    if (kAllColumns[column].has_numbers()) return column;
  }
}

// Thresholds lie between the 20 % and 80 % quantiles of the column.
std::optional<Condition> random_condition(const Given& puzzle, Draw& draw) {
  Condition condition{.column = random_number_column(draw),
                      .relation = std::string(kRelations[draw.below(kRelations.size())])};
  std::vector<int64_t> values;
  for (const Cells& row : puzzle.rows) {
    if (!row[condition.column].empty()) values.push_back(std::stoll(row[condition.column]));
  }
  if (values.size() < 5) return std::nullopt;
  std::ranges::sort(values);
  const auto quantile = [&] { return values[draw.below(values.size() * 3 / 5 + 1) + values.size() / 5]; };
  condition.value = quantile();
  if (condition.relation != "between") return condition;
  condition.upper = quantile();
  if (condition.value > condition.upper) std::swap(condition.value, condition.upper);
  return condition;
}

void add_fault(Given& puzzle, const KnobValues& knobs, Draw& draw) {
  puzzle.fault = static_cast<Fault>(draw.below(kFaultNames.size()));
  puzzle.flat = draw.chance(50);
  const size_t rows = puzzle.rows.size();
  if (puzzle.fault >= Fault::kAddEndRow) puzzle.flat = true;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      if (puzzle.fault == Fault::kError && draw.chance(knobs["rate_percent"]))
        puzzle.error_cells.emplace_back(row, column);
      if (puzzle.fault == Fault::kNull && draw.chance(knobs["rate_percent"]))
        puzzle.rows[row][column].clear();
    }
  }
  const size_t series = puzzle.fault == Fault::kAddEndRow      ? rows
                        : puzzle.fault == Fault::kAddEndColumn ? kColumns
                                                               : 0;
  for (size_t i = 0; i < series * (series - (series > 0 ? 1 : 0)) / 2; ++i)
    puzzle.added.push_back(std::to_string(draw.between(0, 3000)));
}

nlohmann::json json_of(const Given& puzzle) {
  nlohmann::json rows = nlohmann::json::array(), conditions = nlohmann::json::array();
  for (const Cells& row : puzzle.rows) {
    nlohmann::json& cells = rows.emplace_back(nlohmann::json::array());
    for (size_t column = 0; column < kColumns; ++column) {
      if (row[column].empty()) {
        cells.push_back(nullptr);
      } else if (kAllColumns[column].has_numbers()) {
        cells.push_back(std::stoll(row[column]));
      } else {
        cells.push_back(row[column]);
      }
    }
  }
  for (const Condition& one : puzzle.conditions) {
    conditions.push_back({kAllColumns[one.column].name, one.relation, one.value});
    if (one.relation == "between") conditions.back().push_back(one.upper);
  }
  nlohmann::json fault = {{"kind", kFaultNames[static_cast<size_t>(puzzle.fault)]}};
  if (puzzle.fault == Fault::kError) fault["cells"] = puzzle.error_cells;
  if (puzzle.fault == Fault::kAddEndRow || puzzle.fault == Fault::kAddEndColumn)
    fault["added"] = puzzle.added;
  return {{"rows", std::move(rows)},
          {"fault", std::move(fault)},
          {"flat", puzzle.flat},
          {"conditions", std::move(conditions)},
          {"query", {puzzle.statistic, kAllColumns[puzzle.first].name, kAllColumns[puzzle.second].name}}};
}

std::string hundredths_text(int64_t hundredths) {
  return fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
}

// From 15 to 85 percent of the rows are left, and both columns keep two values at least.
bool keeps_enough(const Given& puzzle) {
  const std::vector<size_t> kept = kept_rows(puzzle);
  if (kept.size() * 100 < puzzle.rows.size() * 15 || kept.size() * 100 > puzzle.rows.size() * 85)
    return false;
  return std::ranges::all_of(std::array{puzzle.first, puzzle.second}, [&](size_t column) {
    return std::ranges::count_if(kept, [&](size_t row) { return !puzzle.rows[row][column].empty(); }) >= 2;
  });
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Given puzzle;
  const int64_t rows = knobs["rows"], begin = draw.between(0, 366 - rows);
  for (int64_t row = 0; row < rows; ++row) {
    Cells& cells = puzzle.rows.emplace_back();
    for (size_t column = 0; column < kColumns; ++column)
      cells.push_back(random_cell(column, begin + row, draw));
  }
  add_fault(puzzle, knobs, draw);
  puzzle.statistic = kStatistics[draw.below(kStatistics.size())];
  puzzle.first = random_number_column(draw);
  do {
    puzzle.second = random_number_column(draw);
  } while (puzzle.second == puzzle.first);
  constexpr int kTries = 60;
  for (int tries = 0; tries < kTries; ++tries) {
    puzzle.conditions.clear();
    while (static_cast<int64_t>(puzzle.conditions.size()) < knobs["conditions"]) {
      const std::optional<Condition> condition = random_condition(puzzle, draw);
      if (!condition) return std::nullopt;
      puzzle.conditions.push_back(*condition);
    }
    if (!keeps_enough(puzzle)) continue;
    const std::optional<int64_t> answer = answer_of(puzzle);
    if (!answer || (*answer == 0 && !draw.chance(kZeroPercent))) return std::nullopt;
    return Puzzle{.given = json_of(puzzle), .solution = hundredths_text(*answer)};
  }
  return std::nullopt;
}

// "12.34" and no other form, in hundredths.
std::optional<int64_t> read_hundredths(std::string_view text) {
  text = trimmed(text);
  if (text.size() < 4 || text[text.size() - 3] != '.') return std::nullopt;
  const std::string_view cents = text.substr(text.size() - 2);
  const std::optional<int64_t> whole = read_integer(text.substr(0, text.size() - 3));
  if (!whole || *whole < 0 || *whole > 1'000'000'000'000 || text.front() == '-' ||
      cents.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return *whole * 100 + (cents[0] - '0') * 10 + (cents[1] - '0');
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::optional<int64_t> wanted = answer_of(read_given(given));
  if (!wanted) refuse_given(kTask.key, "a query whose value is not half-way between two hundredths", given);
  const std::optional<int64_t> answer = read_hundredths(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no number with two digits after the point"};
  if (*answer != *wanted)
    return {VerdictCode::kRuleBroken, fmt::format("{} is not the difference", hundredths_text(*answer))};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  (void)read_given(given);              // whole, or refused
  std::vector<std::string> conditions;  // whose order makes no other puzzle
  for (const nlohmann::json& one : given.at("conditions")) conditions.push_back(one.dump());
  std::ranges::sort(conditions);
  return fmt::format("{}\n{}\n{}\n{}", given.at("rows").dump(), given.at("fault").dump(),
                     fmt::join(conditions, ""), given.at("query").dump());
}

size_t number_column_of(const nlohmann::json& json) {
  const std::string& name = text_of(json, "a column", kTask.key);
  const auto found = std::ranges::find(kAllColumns, name, &Column::name);
  if (found == kAllColumns.end() || !found->has_numbers())
    refuse_given(kTask.key, "columns of numbers that our tables have", json);
  return static_cast<size_t>(found - kAllColumns.begin());
}

Cells read_row(const nlohmann::json& json) {
  list_of(json, kColumns, kColumns, "a row", kTask.key);
  Cells row;
  for (size_t column = 0; column < kColumns; ++column) {
    if (json[column].is_null()) {
      row.emplace_back();
    } else if (kAllColumns[column].has_numbers()) {
      row.push_back(
          std::to_string(integer_of(json[column], 0, 1'000'000, kAllColumns[column].name, kTask.key)));
    } else {
      row.push_back(text_of(json[column], kAllColumns[column].name, kTask.key));
    }
  }
  return row;
}

void read_fault(const nlohmann::json& fault, Given& puzzle) {
  const auto kind =
      std::ranges::find(kFaultNames, text_of(member_of(fault, "kind", kTask.key), "\"kind\"", kTask.key));
  if (kind == kFaultNames.end())
    refuse_given(kTask.key, fmt::format("\"kind\": one of {}", fmt::join(kFaultNames, ", ")), fault);
  puzzle.fault = static_cast<Fault>(kind - kFaultNames.begin());
  const size_t rows = puzzle.rows.size();
  if (puzzle.fault == Fault::kError) {
    for (const nlohmann::json& cell :
         list_of(member_of(fault, "cells", kTask.key), 0, rows * kColumns, "\"cells\"", kTask.key)) {
      list_of(cell, 2, 2, "a cell", kTask.key);
      puzzle.error_cells.emplace_back(
          integer_of(cell[0], 0, static_cast<int64_t>(rows) - 1, "a row", kTask.key),
          integer_of(cell[1], 0, static_cast<int64_t>(kColumns) - 1, "a column", kTask.key));
    }
  }
  if (puzzle.fault == Fault::kAddEndRow || puzzle.fault == Fault::kAddEndColumn) {
    const size_t series = puzzle.fault == Fault::kAddEndRow ? rows : kColumns,
                 count = series * (series - 1) / 2;
    for (const nlohmann::json& value :
         list_of(member_of(fault, "added", kTask.key), count, count, "\"added\"", kTask.key))
      puzzle.added.push_back(text_of(value, "an added value", kTask.key));
  }
}

}  // namespace

Given read_given(const nlohmann::json& given) {
  Given puzzle;
  for (const nlohmann::json& row :
       list_of(member_of(given, "rows", kTask.key), 1, kMostRows, "\"rows\"", kTask.key))
    puzzle.rows.push_back(read_row(row));
  read_fault(member_of(given, "fault", kTask.key), puzzle);
  const nlohmann::json& flat = member_of(given, "flat", kTask.key);
  if (!flat.is_boolean()) refuse_given(kTask.key, "\"flat\": true or false", flat);
  puzzle.flat = flat.get<bool>();
  if (!puzzle.flat && puzzle.fault >= Fault::kAddEndRow)
    refuse_given(kTask.key, "\"flat\": true, as the fault writes a list", flat);
  for (const nlohmann::json& json :
       list_of(member_of(given, "conditions", kTask.key), 0, 10, "\"conditions\"", kTask.key)) {
    list_of(json, 3, 4, "a condition", kTask.key);
    Condition one{.column = number_column_of(json[0]), .relation = text_of(json[1], "a relation", kTask.key)};
    if (std::ranges::find(kRelations, one.relation) == kRelations.end() ||
        (one.relation == "between") != (json.size() == 4))
      refuse_given(kTask.key, fmt::format("relations that are one of {}", fmt::join(kRelations, ", ")), json);
    one.value = integer_of(json[2], 0, 1'000'000, "the value of a condition", kTask.key);
    if (json.size() == 4)
      one.upper = integer_of(json[3], 0, 1'000'000, "the value of a condition", kTask.key);
    puzzle.conditions.push_back(std::move(one));
  }
  const nlohmann::json& query = list_of(member_of(given, "query", kTask.key), 3, 3, "\"query\"", kTask.key);
  puzzle.statistic = text_of(query[0], "a statistic", kTask.key);
  if (std::ranges::find(kStatistics, puzzle.statistic) == kStatistics.end())
    refuse_given(kTask.key, fmt::format("a statistic that is one of {}", fmt::join(kStatistics, ", ")),
                 query);
  puzzle.first = number_column_of(query[1]);
  puzzle.second = number_column_of(query[2]);
  return puzzle;
}

const TaskEntry kTask = {.key = "buggy_tables",
                         .title = "Repair a table and compare two of its columns",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::buggy_tables
