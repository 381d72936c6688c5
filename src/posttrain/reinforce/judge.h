// Judge: what answers are worth. Each entry of reinforce.reward gives every answer a number, and their
// weighted sum is its reward. What cannot be judged is an error, never 0: a program that fails, hangs, leaves
// processes behind or writes something else than one number for each answer; a server that does not answer; a
// NaN.
//
// Puzzles, tags and comparisons are judged by all threads. A program is started once for each prompt, with
// its answers as lines of JSON; up to reinforce.verifier_seconds and reinforce.verifier_bytes are its own,
// and it is killed with all that it has started.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "posttrain/reinforce/prompts.h"

namespace longhaul::posttrain {

struct Reward {
  double sum = 0;             // of the weighted parts
  std::vector<double> parts;  // as Judge::parts() names them, without their weights
  bool formatted = false;     // think and answer tags, each once and in order
};

struct JudgedAnswers {
  const Prompt* prompt = nullptr;
  std::vector<std::string> texts;
};

class Judge {
 public:
  explicit Judge(const ReinforceOptions& options);

  std::vector<std::string> parts() const;
  // The rewards of each prompt's answers, in the same order. kData: see above.
  std::vector<std::vector<Reward>> judge(const std::vector<JudgedAnswers>& all) const;

 private:
  std::vector<double> numbers_of(const RewardPart& part, const JudgedAnswers& answers) const;
  std::vector<double> by_program(const JudgedAnswers& answers) const;
  std::vector<double> by_server(const JudgedAnswers& answers) const;
  double of_text(const std::string& name, const Prompt& prompt, const std::string& text) const;

  ReinforceOptions options_;
};

// The match that the reward "regex" judges: the last one in the last 4,096 bytes, or its first group; nothing
// where there is none.
std::optional<std::string> last_match(const std::string& whole, const std::string& expression);

}  // namespace longhaul::posttrain
