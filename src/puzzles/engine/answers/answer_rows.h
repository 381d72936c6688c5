// The sentences that ask for a grid as a list of rows, one way of saying it after the other: what tasks with
// such answers share.
//
//   .formats = answer_rows({.language = language, .rows = 4, .columns = 4})
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "puzzles/engine/prompt.h"

namespace longhaul::puzzles {

struct AnswerRows {
  Language language = Language::kEnglish;
  int64_t rows = 0, columns = 0;
  std::string_view cells = {};  // "heights" or "个高度"; empty: numbers
  std::string_view example = "[[1, 2, …], [3, 4, …], …]";
};
std::array<std::string, 2> answer_rows(const AnswerRows& how);

}  // namespace longhaul::puzzles
