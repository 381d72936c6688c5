// Questions about long texts that are generated from a seed: needles in a haystack, a conversation of many
// rounds, and the kinds of RULER (2404.06654) that need no other data. Each question is a prompt of the
// requested length, in tokens of the model's tokenizer, and the strings that must occur in the model's
// continuation. Text is added (sentences, rounds, words) until no more fits.
//
//   single          one sentence "The special magic number for W is N." at the depth; asks for the number
//   keys            the same among three other such sentences, at random depths
//   values          four numbers of one word, the first at the depth; asks for all of them
//   queries         four words, the first at the depth; asks for the numbers of all
//   rounds          a conversation; asks what was answered in the round at the depth, three words (after
//                   MiniMax's MR-NIAH)
//   variables       X = 12345, Y = X, …: five assignments in order among noise; asks for all variables with
//                   that value
//   common-words    a list in which ten words occur 6 or (from 8,192 tokens on) 30 times, the others 1 or 3
//                   times; asks for the ten words
//   frequent-words  coded words, the k-th with frequency k^−2; asks for the second to fourth (first: "...")
//
// Pure functions of their arguments; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::evaluate {

struct Question {
  std::string prompt;
  std::vector<std::string> answers;
};

struct QuestionRequest {
  std::string kind;
  int64_t tokens = 1024;  // upper limit for the prompt
  double depth = -1;      // 0: at the beginning, 1: at the end; negative: random
  uint64_t seed = 0;
  int64_t index = 0;                           // number of the question among those of this kind
  std::span<const std::string> haystack = {};  // sentences to hide needles in, read in a circle; empty: noise
};

std::vector<std::string> needle_kinds();  // the kinds with a depth
std::vector<std::string> ruler_kinds();
std::vector<std::string> sentences_of(std::string_view text);  // for `haystack`

// Length of the shortest prompt of the kind.
int64_t fewest_tokens(const QuestionRequest& request, const data::Tokenizer& tokenizer);
// kUsage if not even the shortest question of the kind fits.
Question make_question(const QuestionRequest& request, const data::Tokenizer& tokenizer);

std::string listed(const std::vector<std::string>& words);  // "a, b and c"

// RULER's string_match_all: the share of answers that occur in the output, whatever the case of ASCII
// letters.
double share_matched(std::string_view output, const std::vector<std::string>& answers);

}  // namespace longhaul::evaluate
