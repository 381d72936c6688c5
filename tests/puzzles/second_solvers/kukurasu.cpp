#include "puzzles/second_solvers/encoders.h"

namespace longhaul::puzzles {

Literals kukurasu_clauses(const nlohmann::json& given, Cnf& cnf) {
  const size_t rows = given["row_sums"].size(), columns = given["col_sums"].size();
  Literals marks;
  for (size_t i = 0; i < rows * columns; ++i) marks.push_back(cnf.variable());
  for (size_t r = 0; r < rows; ++r) {
    std::vector<std::pair<int, int64_t>> row;
    for (size_t c = 0; c < columns; ++c)
      row.emplace_back(marks[r * columns + c], static_cast<int64_t>(c) + 1);
    cnf.adds_up(row, given["row_sums"][r].get<int64_t>());
  }
  for (size_t c = 0; c < columns; ++c) {
    std::vector<std::pair<int, int64_t>> column;
    for (size_t r = 0; r < rows; ++r)
      column.emplace_back(marks[r * columns + c], static_cast<int64_t>(r) + 1);
    cnf.adds_up(column, given["col_sums"][c].get<int64_t>());
  }
  return marks;
}

}  // namespace longhaul::puzzles
