// Grids of scores: the mean share of correct answers for every pair of a length and a depth (needles), or
// of a length and a kind (RULER's).
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
  // [rows][columns], 0 to 1; NaN where the kind has no question as short as that.
  std::vector<std::vector<double>> values;
  double mean() const;  // the mean over the questions that were asked
};

struct GridRequest {
  std::vector<int64_t> lengths;  // tokens of a question with its answer
  int64_t samples = 10;          // questions for each entry
  uint64_t seed = 0;
  std::vector<std::string> haystack;
};

// progress is called after each question, whichever rank has it. Error (64) when the text of a needle, or
// all of RULER's texts, would be longer than requested.
Grid needle_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request,
                 const std::string& kind, const std::vector<double>& depths,
                 const std::function<void()>& progress = {},
                 const EvaluationShare& share = {});  // rows: depths; columns: lengths
Grid ruler_grid(Answers& answers, const data::Tokenizer& tokenizer, const GridRequest& request,
                const std::vector<std::string>& kinds,
                // rows: kinds; columns: lengths
                const std::function<void()>& progress = {}, const EvaluationShare& share = {});

// The weighted score of 2406.16690 (docs/sources/linear-attention.md §6): entries count more the longer and
// the deeper they are, by powers of alpha, and the score of a length is multiplied by 2^((1 − n)/2), where
// n is the number of runs of equal outcomes (at least half of the answers correct, or not) over its depths.
// The study does not publish its alpha.
double weighted_score(const Grid& grid, double alpha);

}  // namespace longhaul::evaluate
