// Answers: what evaluations ask of a language model: how likely given tokens are where they stand, and how a text goes on. Tasks know nothing
// else of it, so that a test can put something behind it that knows the answers, or guesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::evaluate {

// After the tokens up to and with place `position` of the passage, `id` should follow.
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
  int64_t predicted = -1;      // the likeliest id; of equals the smallest
};

class Answers {
 public:
  virtual ~Answers() = default;
  // For each passage one for each of its targets. Passages do not see each other.
  virtual std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) = 0;
  // The likeliest next token, `tokens` times, or until one of `stops` follows, which is left out.
  virtual std::vector<int64_t> complete(std::span<const int64_t> prompt, int64_t tokens, std::span<const int64_t> stops) = 0;
};

}  // namespace longhaul::evaluate
