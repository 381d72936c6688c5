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
    {"arrow_maze", arrow_maze_clauses},         //
    {"calcudoko", calcudoko_clauses},           //
    {"campsite", campsite_clauses},             //
    {"futoshiki", futoshiki_clauses},           //
    {"kukurasu", kukurasu_clauses},             //
    {"norinori", norinori_clauses},             //
    {"number_wall", number_wall_clauses},       //
    {"numbrix", numbrix_clauses},               //
    {"skyscraper_puzzle", skyscraper_clauses},  //
    {"star_placement_puzzle", star_clauses},    //
    {"sudoku", sudoku_clauses},                 //
    {"survo", survo_clauses},                   //
    {"wordscapes", wordscapes_clauses},         //
    {"zebra_puzzle", zebra_clauses},            //
};

}  // namespace

Encoder encoder_of(std::string_view task) {
  const auto found = std::ranges::find(kEncoders, task, &EncoderRow::task);
  return found == std::end(kEncoders) ? nullptr : found->encoder;
}

}  // namespace longhaul::puzzles
