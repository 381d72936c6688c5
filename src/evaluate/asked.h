// Asked texts: questions from files of public benchmarks, each with what it is scored by. A model that has a
// chat template is asked through it; any other one continues a text. Answers are greedy.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/tokenizer/tokenizer.h"
#include "evaluate/answers.h"
#include "evaluate/share.h"

namespace longhaul::evaluate {

struct Turn {
  std::string role, content;  // "user" or "assistant"
};

struct AskedText {
  std::vector<Turn> turns;  // the last one is the user's
  // Continued as it is also by a model with a template: examples and code, which no turn should break.
  bool never_as_chat = false;
  // The first words of the answer, which a model without a template is given too.
  std::string lead;
  int64_t answer_tokens = 64;
  std::function<double(const std::string& said)> score;  // 0 to 1
  std::string where;                                     // file and line, for people
};

struct AskSettings {
  // Tokens of a text and its answer; a longer text of one turn loses its middle, as LongBench does it: the
  // first and the last half of the tokens that there is room for stay. 0: any number.
  int64_t context = 0;
  const data::chat::ChatFormat* format = nullptr;  // null: the model has no template
};

struct AskedScores {
  std::vector<double> scores;  // of each text
  int64_t cut = 0;             // texts that lost their middle
};

// progress is called after each text, whichever rank has it.
AskedScores ask(Answers& answers, const data::Tokenizer& tokenizer, const std::vector<AskedText>& texts,
                const AskSettings& settings, const std::function<void()>& progress = {},
                const EvaluationShare& share = {});

// The ids that the model reads.
struct AskedIds {
  std::vector<int64_t> ids;
  bool cut = false, as_chat = false;
};
AskedIds asked_ids(const data::Tokenizer& tokenizer, const AskedText& text, const AskSettings& settings);

}  // namespace longhaul::evaluate
