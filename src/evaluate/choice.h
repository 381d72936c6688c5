// Multiple choice, scored as in lm-evaluation-harness (EleutherAI, 0.4.9: lm_eval/api/task.py,
// api/model.py): every choice is scored as the continuation of its context, and the likeliest one, among
// equals the first, is the answer:
//
//   acc              by the log-probability ll of the choice
//   acc_norm         by ll / length, in characters (the harness says bytes and counts Python characters; so
//                    do we)
//   acc_bytes        by ll / length in bytes of UTF-8, as its later versions do; the same for ASCII
//   acc_mutual_info  by ll − ll of the choice with an empty context
//
// Lengths are those of the choice without the space in front of it. Context and choice are encoded together
// and split at the length of the context when it is encoded alone; spaces that end a context are moved to
// the choice. A context is preceded by what the tokenizer's template puts there, and by nothing if it has
// no template. An empty context, and every context with a tokenizer that was made here, is preceded by the
// end-of-document token, as documents were in training. Of a question that is longer than the model's
// positions, only its end is scored. No examples are put in front (few-shot 0).
//
// If a token crosses the border between context and choice, so that no token of a choice is left to score,
// the harness stops; here all choices of that question are scored from the first token in which the encoded
// context differs from one of the encoded texts.
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
  std::vector<std::string> continuations;  // the scored texts, with the delimiter in front: " a dog"
  std::vector<std::string> choices;        // the texts whose lengths count: "a dog"
  int64_t gold = 0;
  std::string where{};  // file and line, for people
};

// The tokens that precede a context.
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
  // standard errors of the means, as the harness gives them: √(p(1−p)/(n−1))
  double acc_error = 0, acc_norm_error = 0;
  double chance = 0;  // the expected accuracy of guessing
  // Questions that did not fit completely into the model's positions.
  int64_t cut = 0;
};

// kData errors name the question: no token of a choice is left, or a choice alone is longer than the
// model's positions.
ChoiceResult score_choices(Answers& answers, const data::Tokenizer& tokenizer,
                           const std::vector<ChoiceItem>& items, const ChoiceSettings& settings = {},
                           const std::function<void()>& progress = {}, const EvaluationShare& share = {});

// The ids of context and continuation, and how many of them belong to the continuation.
struct EncodedPair {
  std::vector<int64_t> ids;
  int64_t scored = 0;
};
EncodedPair encode_pair(const data::Tokenizer& tokenizer, const std::string& context,
                        const std::string& continuation, ChoicePrefix prefix = ChoicePrefix::kTemplate);
// The encoded pair of each of an item's choices.
std::vector<EncodedPair> encode_choices(const data::Tokenizer& tokenizer, const ChoiceItem& item,
                                        ChoicePrefix prefix);

}  // namespace longhaul::evaluate
