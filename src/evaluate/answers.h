// Answers: the questions that evaluations ask of a language model: how likely given tokens are at their
// positions, and how a text continues. Evaluation tasks use only this interface, so a test can implement it
// with an object that knows the answers, or guesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::evaluate {

// A token to score: after the tokens of the passage up to and including `position`, `id` should follow.
struct Target {
  int64_t position = 0;
  int64_t id = 0;
};

struct Passage {
  std::vector<int64_t> ids;
  std::vector<Target> targets;  // positions ascending
};

struct Judged {
  double log_probability = 0;  // of the target's id, natural logarithm
  int64_t predicted = -1;      // the likeliest id; among equals the smallest
};

class Answers {
 public:
  virtual ~Answers() = default;
  // Returns, for each passage, one Judged for each of its targets. Passages are independent of each other.
  virtual std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) = 0;
  // Continues the prompt with the likeliest next token, `tokens` times, or until one of `stops` follows,
  // which is left out.
  virtual std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens,
                                        std::span<const int64_t> stops) = 0;
};

}  // namespace longhaul::evaluate
