#include "puzzles/engine/grids/filled.h"

#include <fmt/format.h>

namespace longhaul::puzzles {

FilledBoard read_filled(const NumberGrid& board, std::string_view payload) {
  const std::optional<NumberGrid> answer = answered_grid(payload);
  if (!answer) return {{VerdictCode::kUnreadable, "no grid of whole numbers in rows of one length"}, {}};
  if (answer->rows != board.rows || answer->columns != board.columns)
    return {{VerdictCode::kShape, fmt::format("{} rows of {} cells, where the puzzle has {} of {}",
                                              answer->rows, answer->columns, board.rows, board.columns)},
            {}};
  for (int64_t r = 0; r < board.rows; ++r) {
    for (int64_t c = 0; c < board.columns; ++c) {
      if (board.at(r, c) != kBlank && answer->at(r, c) != board.at(r, c))
        return {{VerdictCode::kGivenChanged,
                 fmt::format("row {}, column {} is given as {}", r + 1, c + 1, board.at(r, c))},
                {}};
    }
  }
  return {{}, *answer};
}

}  // namespace longhaul::puzzles
