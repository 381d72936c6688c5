// Buggy tables: each fault by hand on small tables, statistics and rounding, the answers that are read, and
// what is drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "puzzles/buggy_tables/buggy_tables.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles {
namespace {

using buggy_tables::answer_of;
using buggy_tables::Cells;
using buggy_tables::exported_list;
using buggy_tables::exported_rows;
using buggy_tables::Fault;
using buggy_tables::Given;
using buggy_tables::kColumns;
using ::testing::ElementsAre;

// Cell (r, c) holds 100 (r + 1) + c.
Given table(size_t rows, Fault fault) {
  Given given{.fault = fault};
  for (size_t r = 0; r < rows; ++r) {
    Cells& cells = given.rows.emplace_back();
    for (size_t c = 0; c < kColumns; ++c) cells.push_back(std::to_string(100 * (r + 1) + c));
  }
  return given;
}

TEST(BuggyTables, FaultsOfTablesByHand) {
  const auto merged = exported_rows(table(3, Fault::kMergeRows));
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0][2], "102 && 202");
  EXPECT_EQ(merged[1][17], "317 && null");
  const auto columns = exported_rows(table(3, Fault::kRotateColumns));  // column 1 goes down by one row
  EXPECT_EQ(columns[0][0], "100");
  EXPECT_EQ(columns[0][1], "301");
  EXPECT_EQ(columns[1][1], "101");
  EXPECT_EQ(columns[2][2], "102");
  EXPECT_EQ(columns[0][3], "103");
  const auto rows = exported_rows(table(3, Fault::kRotateRows));  // row 1 goes right by one column
  EXPECT_EQ(rows[0][0], "100");
  EXPECT_EQ(rows[1][0], "217");
  EXPECT_EQ(rows[1][1], "200");
  EXPECT_EQ(rows[2][2], "300");
  Given error = table(2, Fault::kError);
  error.error_cells = {{1, 4}};
  EXPECT_EQ(exported_rows(error)[1][4], "ERROR");
  EXPECT_EQ(exported_rows(error)[0][4], "104");
}

TEST(BuggyTables, FaultsOfListsByHand) {
  Given ends = table(3, Fault::kAddEndRow);
  ends.added = {"a", "b", "c"};  // none after row 0, one after row 1, two after row 2
  const Cells row_list = exported_list(ends);
  ASSERT_EQ(row_list.size(), 3 * kColumns + 3);
  EXPECT_EQ(row_list[18], "200");
  EXPECT_EQ(row_list[36], "a");
  EXPECT_EQ(row_list[37], "300");
  EXPECT_EQ(row_list[56], "c");
  ends.fault = Fault::kAddEndColumn;
  ends.added = Cells(kColumns * (kColumns - 1) / 2, "x");
  const Cells column_list = exported_list(ends);
  EXPECT_THAT(Cells(column_list.begin(), column_list.begin() + 11),
              ElementsAre("100", "200", "300", "101", "201", "301", "x", "102", "202", "302", "x"));
  Given nulls = table(2, Fault::kNull);
  nulls.rows[0][1].clear();
  EXPECT_EQ(exported_list(nulls).size(), 2 * kColumns - 1);
  EXPECT_EQ(exported_list(nulls)[1], "102");
}

TEST(BuggyTables, StatisticsByHand) {
  // Columns 1 and 2 hold 1, 2, 3, 10 and 4, 4, 5, 5; column 3 chooses.
  Given given = table(5, Fault::kError);
  const std::vector<std::vector<std::string>> values = {
      {"1", "4", "1"}, {"2", "4", "2"}, {"3", "5", "3"}, {"10", "5", "4"}, {"900", "800", "9"}};
  for (size_t r = 0; r < 5; ++r) std::ranges::copy(values[r], given.rows[r].begin() + 1);
  given.first = 1;
  given.second = 2;
  given.conditions = {{.column = 3, .relation = "<", .value = 9}};
  const auto answer = [&](const char* statistic) {
    given.statistic = statistic;
    return answer_of(given);
  };
  EXPECT_EQ(answer("mean"), 50);     // 4 − 4.5
  EXPECT_EQ(answer("median"), 200);  // 2.5 − 4.5
  EXPECT_EQ(answer("sum"), 200);     // 16 − 18
  EXPECT_EQ(answer("max"), 500);
  EXPECT_EQ(answer("min"), 300);
  EXPECT_EQ(answer("variance"), 1633);  // 50/3 − 1/3
  EXPECT_EQ(answer("stdev"), 351);      // 4.0825 − 0.5774
  given.rows[3][1].clear();             // a null is left out: 1, 2, 3
  EXPECT_EQ(answer("mean"), 250);
  given.conditions[0] = {.column = 1, .relation = "!=", .value = 2};  // and meets no condition
  EXPECT_EQ(buggy_tables::kept_rows(given), (std::vector<size_t>{0, 2, 4}));
  given.conditions[0] = {.column = 3, .relation = "between", .value = 2, .upper = 3};
  EXPECT_EQ(buggy_tables::kept_rows(given), (std::vector<size_t>{1, 2}));
  given.conditions[0] = {.column = 3, .relation = ">", .value = 9};
  EXPECT_EQ(answer("mean"), 0);
}

TEST(BuggyTables, WhatLiesBetweenTwoHundredthsHasNoAnswer) {
  Given given = table(8, Fault::kError);
  for (size_t r = 0; r < 8; ++r) given.rows[r][1] = r == 0 ? "1" : "0", given.rows[r][2] = "0";
  given.first = 1;
  given.second = 2;
  given.statistic = "mean";
  EXPECT_EQ(answer_of(given), std::nullopt);  // 0.125
}

TEST(BuggyTables, AnswersHaveTwoDigits) {
  const TaskEntry& task = buggy_tables::kTask;
  const auto made = make_puzzle(task, at_level(task.knobs, 2), 3, 1);
  const std::string solution = made->puzzle.solution;
  EXPECT_TRUE(task.verify(made->puzzle.given, " " + solution + "\n").accepted());
  for (const std::string& bad : {solution + "0", solution.substr(0, solution.size() - 1), "-" + solution,
                                 solution + "%", "=" + solution, std::string("0.00"), std::string(".00"),
                                 std::string("1e5.00"), std::string("99999999999999999999.00")})
    EXPECT_FALSE(task.verify(made->puzzle.given, bad).accepted()) << bad;
}

TEST(BuggyTables, FiltersFilterAndEachFaultComes) {
  const TaskEntry& task = buggy_tables::kTask;
  std::set<std::string> faults;
  int64_t zeros = 0;
  for (int64_t index = 0; index < 60; ++index) {
    const auto made = make_puzzle(task, at_level(task.knobs, 3), 1, index);
    const Given given = buggy_tables::read_given(made->puzzle.given);
    faults.insert(made->puzzle.given["fault"]["kind"]);
    zeros += made->puzzle.solution == "0.00" ? 1 : 0;
    const size_t kept = buggy_tables::kept_rows(given).size();
    EXPECT_GE(kept * 100, given.rows.size() * 15);
    EXPECT_LE(kept * 100, given.rows.size() * 85);
  }
  EXPECT_EQ(faults.size(), buggy_tables::kFaultNames.size());
  EXPECT_LE(zeros, 6);
}

}  // namespace
}  // namespace longhaul::puzzles
