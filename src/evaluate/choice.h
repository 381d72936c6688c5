// Multiple choice as lm-evaluation-harness scores it (EleutherAI, 0.4.9: lm_eval/api/task.py, api/model.py): every choice is scored as the
// continuation of its context, and the likeliest one, of equals the first, is the answer:
//
//   acc              by the log-probability ll of the choice
//   acc_norm         by ll / length, in characters (the harness says bytes and counts Python characters; so do we)
//   acc_bytes        by ll / length in bytes of UTF-8, as its later versions have it; the same for ASCII
//   acc_mutual_info  by ll − ll of the choice behind nothing
//
// Lengths are those of the choice without the space in front of it. Context and choice are encoded together and split where the context encoded
// alone ends; spaces that end a context go to the choice. Before a context stands what the tokenizer's template puts there, and nothing where it
// has none; before no context, and before all of them with a tokenizer that was made here, the end-of-document token, as documents began in
// training. A question that is longer than the model's positions is scored by its end. No examples are put in front (few-shot 0).
//
// Where a token reaches over the join, so that nothing of a choice is left to score, the harness stops; here all choices of that question are
// scored from the first token in which the context alone differs from one of the whole texts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "evaluate/answers.h"
#include "evaluate/share.h"

namespace longhaul::evaluate {

struct ChoiceItem {
  std::vector<std::string> contexts;       // one, or one for each choice
  std::vector<std::string> continuations;  // what is scored, delimiter in front: " a dog"
  std::vector<std::string> choices;        // whose lengths count: "a dog"
  int64_t gold = 0;
  std::string where{};  // file and line, for people
};

// What stands before a context.
enum class ChoicePrefix { kTemplate, kSeparator, kNone };  // kTemplate: as described above
ChoicePrefix choice_prefix(const std::string& name);       // "template", "separator", "none"

struct ChoiceSettings {
  ChoicePrefix prefix = ChoicePrefix::kTemplate;
  int64_t positions = 0;  // of the model; 0: any number
};

// Log-probabilities of an item's choices.
struct ChoiceScores {
  std::vector<double> conditional, unconditional;
};

struct ChoiceOutcome {
  bool acc = false, acc_norm = false, acc_bytes = false, acc_mutual_info = false;
};
ChoiceOutcome outcome_of(const ChoiceItem& item, const ChoiceScores& scores);

struct ChoiceResult {
  int64_t items = 0, choices = 0;
  double acc = 0, acc_norm = 0, acc_bytes = 0, acc_mutual_info = 0;
  double acc_error = 0, acc_norm_error = 0;  // standard errors of the means, as the harness gives them: √(p(1−p)/(n−1))
  double chance = 0;                         // of who guesses
  int64_t cut = 0;                           // questions of which something did not fit into the model's positions
};

// kData errors name the question: a choice of which no token is left, or that alone is longer than the model's positions.
ChoiceResult score_choices(Answers& answers, const data::Tokenizer& tokenizer, const std::vector<ChoiceItem>& items,
                           const ChoiceSettings& settings = {}, const std::function<void()>& progress = {},
                           const EvaluationShare& share = {});

// Ids of context and continuation, and how many are the continuation's.
struct EncodedPair {
  std::vector<int64_t> ids;
  int64_t scored = 0;
};
EncodedPair encode_pair(const data::Tokenizer& tokenizer, const std::string& context, const std::string& continuation,
                        ChoicePrefix prefix = ChoicePrefix::kTemplate);
// Of each of an item's choices.
std::vector<EncodedPair> encode_choices(const data::Tokenizer& tokenizer, const ChoiceItem& item, ChoicePrefix prefix);

}  // namespace longhaul::evaluate
