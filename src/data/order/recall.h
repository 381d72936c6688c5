// Sequences of random tokens that can be continued only by who remembers their beginning. Token k of sequence i is a pure function of (options,
// seed, i), so nothing is stored and every rank makes its own rows.
//
// mqar: multi-query associative recall (Arora et al., 2312.04927), as its authors make it. D keys and values stand first, k1 v1 k2 v2 …; keys
// are different tokens of the lower half of the vocabulary (0 is none), values of the upper half. Behind them every key stands once more, at a
// place 2D + 2g whose g is drawn by the power law a·(g+1)^(a−1), without repetition; all other places hold random tokens. The label of a
// key that stands once more is its value; nothing else has a label.
// copy: D random tokens, a gap of the token 0, the token 1, and the D tokens again. The label of token 1 is the first of them, and so on.
// Plain functions; thread-safe.
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

// What is wrong with the shape, for people; empty: nothing.
std::string problem_of(const RecallShape& shape);
RecallRow recall_row(const RecallShape& shape, uint64_t seed, int64_t index);  // kUsage where problem_of() says something
// Share of right answers of who guesses one of the tokens that can be answers.
double chance_of(const RecallShape& shape);

}  // namespace longhaul::data
