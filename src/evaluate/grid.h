// Grids of scores: the mean share of answers found for every pair of a length and a depth (needles), or of a length and a kind (RULER's).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evaluate/answers.h"
#include "evaluate/questions.h"
#include "evaluate/share.h"

namespace longhaul::evaluate {

struct Grid {
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // [rows][columns], 0 to 1; NaN where no question of the kind is so short
  double mean() const;                      // of what was asked
};

struct GridRequest {
  std::vector<int64_t> lengths;  // tokens of a question with its answer
  int64_t samples = 10;          // questions for each entry
  uint64_t seed = 0;
  std::vector<std::string> haystack;
};

// progress is called after each question, whoever has it. Error (64) where a needle's text, or all of RULER's, would be longer than asked for.
Grid needle_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request, const std::string& kind,
                 const std::vector<double>& depths, const std::function<void()>& progress = {},
                 const EvaluationShare& share = {});  // rows: depths; columns: lengths
Grid ruler_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request, const std::vector<std::string>& kinds,
                const std::function<void()>& progress = {}, const EvaluationShare& share = {});  // rows: kinds; columns: lengths

// The weighted score of 2406.16690 (docs/sources/linear-attention.md §6): entries count the more the longer and the deeper, by powers of alpha, and a length
// counts 2^((1 − n)/2) of it, where n is the number of runs of equal outcomes (a half or more of the answers found, or not) over its depths.
// The study does not publish its alpha.
double weighted_score(const Grid& grid, double alpha);

}  // namespace longhaul::evaluate
