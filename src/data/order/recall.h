// Sequences of random tokens that can only be continued by a model that remembers their beginning. Token k of
// sequence i is a pure function of (options, seed, i), so that nothing is stored and every rank makes its own
// rows.
//
// mqar: multi-query associative recall (Arora et al., 2312.04927), as its authors make it. D keys and values
// come first, k1 v1 k2 v2 …; keys are different tokens of the lower half of the vocabulary (not 0), values of
// the upper half. After them every key occurs once more, at a place 2D + 2g whose g is drawn without
// repetition by the power law a·(g+1)^(a−1); all other places hold random tokens. The label of the second
// occurrence of a key is its value; nothing else has a label.
// copy: D random tokens, a gap of the token 0, the token 1, and the D tokens again. The label of token 1 is
// the first of them, and so on. Plain functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/sections/recall_options.h"

namespace longhaul::data {

struct RecallShape {
  recipe::RecallKind kind = recipe::RecallKind::kMqar;
  int64_t sequence = 64, pairs = 8, vocabulary = 0;
  double nearness = 0.01;
};

struct RecallRow {
  std::vector<int64_t> inputs, labels;  // [sequence]; −1: no label
};

// The problem with the shape, for people; empty: there is none.
std::string problem_of(const RecallShape& shape);
// kUsage where problem_of() is not empty.
RecallRow recall_row(const RecallShape& shape, uint64_t seed, int64_t index);
// Share of right answers if one guesses among the possible answers.
double chance_of(const RecallShape& shape);

}  // namespace longhaul::data
