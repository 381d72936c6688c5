#include <algorithm>

#include "puzzles/buggy_tables/buggy_tables.h"

namespace longhaul::puzzles::buggy_tables {
namespace {

// In the order of Fault.
constexpr std::string_view kFaultTexts[kFaultNames.size()][2] = {
    {"The faulty code wrote ERROR into some cells in place of their values.",
     "有缺陷的代码把一些单元格的值写成了 ERROR。"},
    {"The faulty code joined rows in pairs: row 0 with row 1, row 2 with row 3, and so on. Each cell holds "
     "the values of both rows with && between them, that of the "
     "first row in front. Where a last row had no partner, it was joined with nulls, which are no row of the "
     "table.",
     "有缺陷的代码把行两两合并：第0行与第1行，第2行与第3行，依此类推。每个单元格含有两行的值，中间是 "
     "&&，前一行的值在前。如果最后一行没有配对，它与 null 合并，这些 null "
     "不是表中的行。"},
    {"The faulty code moved the values of column j down by j rows; values that left the table at the bottom "
     "came in again at the top of their column.",
     "有缺陷的代码把第j列的值向下移动了j行；从底部移出的值从同一列的顶部重新进入。"},
    {"The faulty code moved the values of row i to the right by i columns; values that left the table at the "
     "right came in again at the left of their row.",
     "有缺陷的代码把第i行的值向右移动了i列；从右边移出的值从同一行的左边重新进入。"},
    {"The faulty code wrote the table as one list, row after row, and after the values of row i it wrote i "
     "more values that do not belong to the table.",
     "有缺陷的代码把表逐行写成一个列表，并在第i行的值之后多写了i个不属于该表的值。"},
    {"The faulty code wrote the table as one list, column after column, and after the values of column j it "
     "wrote j more values that do not belong to the table.",
     "有缺陷的代码把表逐列写成一个列表，并在第j列的值之后多写了j个不属于该表的值。"},
    {"The faulty code wrote the table as one list, row after row, and left out the cells that hold null.",
     "有缺陷的代码把表逐行写成一个列表，并漏掉了值为 null 的单元格。"}};

struct StatisticText {
  std::string_view name, english, chinese;
};
constexpr StatisticText kStatisticTexts[] = {
    {"mean", "mean", "平均值"},
    {"median", "median", "中位数"},
    {"stdev", "sample standard deviation (with n - 1)", "样本标准差（除以 n - 1）"},
    {"variance", "sample variance (with n - 1)", "样本方差（除以 n - 1）"},
    {"sum", "sum", "总和"},
    {"max", "maximum", "最大值"},
    {"min", "minimum", "最小值"}};

std::string table_text(const Given& puzzle, bool chinese) {
  std::vector<std::string_view> names;
  for (const Column& column : kAllColumns) names.push_back(column.name);
  if (puzzle.flat) {
    const auto list = exported_list(puzzle);
    return chinese
               ? fmt::format("列：{}\n原表的行数：{}\n导出的列表（{}）：\n{}", fmt::join(names, ", "),
                             puzzle.rows.size(),
                             puzzle.fault == Fault::kAddEndColumn ? "逐列，不含表头" : "逐行，不含表头",
                             fmt::join(list, ", "))
               : fmt::format(
                     "Columns: {}\nRows of the true table: {}\nExported list ({}, without the header):\n{}",
                     fmt::join(names, ", "), puzzle.rows.size(),
                     puzzle.fault == Fault::kAddEndColumn ? "column after column" : "row after row",
                     fmt::join(list, ", "));
  }
  std::string text = fmt::format("| {} |\n|", fmt::join(names, " | "));
  for (size_t i = 0; i < kColumns; ++i) text += "---|";
  for (const Cells& row : exported_rows(puzzle)) text += fmt::format("\n| {} |", fmt::join(row, " | "));
  return text;
}

// What must be known beside the exported table to undo the fault.
std::string hint_text(const Given& puzzle, bool chinese) {
  if (puzzle.fault == Fault::kError) {
    auto cells = puzzle.error_cells;
    std::ranges::sort(cells, [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) < std::pair(b.second, b.first);
    });
    Cells values;
    for (const auto& [row, column] : cells) values.push_back(puzzle.rows[row][column]);
    return fmt::format(fmt::runtime(chinese ? "\n这些单元格的真实值，从左到右逐列、每列从上到下为：{}"
                                            : "\nThe true values of these cells, column after column from "
                                              "the left, and in a column from the top, are: {}"),
                       fmt::join(values, ", "));
  }
  if (puzzle.fault != Fault::kNull) return "";
  std::vector<std::string> places;
  for (size_t row = 0; row < puzzle.rows.size(); ++row) {
    for (size_t column = 0; column < kColumns; ++column) {
      if (puzzle.rows[row][column].empty()) places.push_back(fmt::format("({}, {})", row, column));
    }
  }
  return fmt::format(fmt::runtime(chinese ? "\nnull 所在的位置（行, 列）为：{}"
                                          : "\nThe nulls are at these places (row, column): {}"),
                     fmt::join(places, ", "));
}

std::string query_text(const Given& puzzle, bool chinese) {
  std::vector<std::string> conditions;
  for (const Condition& one : puzzle.conditions) {
    const auto name = kAllColumns[one.column].name;
    if (one.relation != "between") {
      conditions.push_back(fmt::format("{} {} {}", name, one.relation, one.value));
    } else {
      conditions.push_back(fmt::format(
          fmt::runtime(chinese ? "{} 在 {} 到 {} 之间（含两端）" : "{} between {} and {} (both included)"),
          name, one.value, one.upper));
    }
  }
  const auto* statistic = std::ranges::find(kStatisticTexts, puzzle.statistic, &StatisticText::name);
  const auto first = kAllColumns[puzzle.first].name, second = kAllColumns[puzzle.second].name;
  if (chinese)
    return fmt::format(
        "问题：在原表中只保留满足以下所有条件的行：{}。在这些行中，{} 的{}与 {} 的{}之差的绝对值是多少？",
        fmt::join(conditions, "；"), first, statistic->chinese, second, statistic->chinese);
  return fmt::format(
      "Question: Of the true table keep the rows that meet all of these conditions: {}. In these rows, what "
      "is the absolute difference between the {} of {} and "
      "the {} of {}?",
      fmt::join(conditions, "; "), statistic->english, first, statistic->english, second);
}

const PromptParts& english() {
  static const PromptParts parts = {
      .openings = {"Repair a table and answer a question about it.",
                   "A table was exported by code with a bug.", "Here is the output of a faulty export.",
                   "Undo the fault of this export, then calculate.", "Please restore the table first.",
                   "The table below is not what it should be.", "Work with a table that a bug has spoilt.",
                   "Find out what the true table says."},
      .rules = {"Rows and columns are counted from 0, and the header is no row. A condition on a cell that "
                "is null does not hold, and nulls are left out of all statistics. "
                "If no row is left, the result is 0.00.",
                "Rules: row 0 is the first one below the header, column 0 the leftmost. Cells with null meet "
                "no condition and count in no statistic. The "
                "result is 0.00 if no row meets the conditions."},
      .formats = {"Answer with the number alone, rounded to exactly two digits after the decimal point.",
                  "Write only the result, with two digits after the point (round as usual)."}};
  return parts;
}

const PromptParts& chinese() {
  static const PromptParts parts = {
      .openings = {"请修复一个表格并回答相关问题。", "一个表格被有缺陷的代码导出了。",
                   "下面是一次有错误的导出结果。", "请撤销这次导出的错误，然后计算。", "请先恢复表格。",
                   "下面的表格不是它应有的样子。", "请处理一个被程序错误弄坏的表格。",
                   "请弄清真实的表格说了什么。"},
      .rules = {"行和列都从0开始计数，表头不算行。值为 null 的单元格不满足任何条件，统计时忽略 "
                "null。如果没有剩下任何行，结果为 0.00。",
                "规则：第0行是表头下面的第一行，第0列是最左边的一列。null "
                "单元格不满足任何条件，也不计入任何统计。没有行满足条件时结果为 0.00。"},
      .formats = {"请只回答这个数，四舍五入到小数点后恰好两位。",
                  "请只写结果，保留小数点后两位（按通常方式四舍五入）。"}};
  return parts;
}

}  // namespace

std::string prompt(const nlohmann::json& given, Language language, int64_t which) {
  const Given puzzle = read_given(given);
  const bool is_chinese = language == Language::kChinese;
  const std::string board = fmt::format(
      "{}{}\n\n{}\n\n{}", kFaultTexts[static_cast<size_t>(puzzle.fault)][is_chinese ? 1 : 0],
      hint_text(puzzle, is_chinese), table_text(puzzle, is_chinese), query_text(puzzle, is_chinese));
  return prompt_of(is_chinese ? chinese() : english(), board, which);
}

}  // namespace longhaul::puzzles::buggy_tables
