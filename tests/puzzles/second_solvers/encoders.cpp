#include "puzzles/second_solvers/encoders.h"

#include <algorithm>

namespace longhaul::puzzles {
namespace {

struct EncoderRow {
  std::string_view task;
  Encoder encoder;
};
// One row a line, sorted by key.
constexpr EncoderRow kEncoders[] = {
    {"calcudoko", calcudoko_clauses},           //
    {"futoshiki", futoshiki_clauses},           //
    {"kukurasu", kukurasu_clauses},             //
    {"skyscraper_puzzle", skyscraper_clauses},  //
    {"sudoku", sudoku_clauses},                 //
};

}  // namespace

Encoder encoder_of(std::string_view task) {
  const auto found = std::ranges::find(kEncoders, task, &EncoderRow::task);
  return found == std::end(kEncoders) ? nullptr : found->encoder;
}

}  // namespace longhaul::puzzles
