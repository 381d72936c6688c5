#include "puzzles/engine/answers/answer_rows.h"

namespace longhaul::puzzles {

std::array<std::string, 2> answer_rows(const AnswerRows& how) {
  if (how.language == Language::kChinese) {
    const std::string_view cells = how.cells.empty() ? "个数字" : how.cells;
    return {fmt::format("请从上到下给出全部 {} 行，写成 {} 个列表组成的列表，每个列表有 {} {}，形式如 {}。",
                        how.rows, how.rows, how.columns, cells, how.example),
            fmt::format("请把答案写成 Python 列表：共 {} 行，每行是从左到右的 {} {}，例如 {}。", how.rows,
                        how.columns, cells, how.example)};
  }
  const std::string_view cells = how.cells.empty() ? "numbers" : how.cells;
  return {
      fmt::format("Give all {} rows from top to bottom as a list of {} lists of {} {}, in a form like {}.",
                  how.rows, how.rows, how.columns, cells, how.example),
      fmt::format("Write the answer as a Python list of the {} rows, each a list of {} {} from left to "
                  "right, for example {}.",
                  how.rows, how.columns, cells, how.example)};
}

}  // namespace longhaul::puzzles
