// Recall of random tokens (data/order/recall.h): the share of right answers, by the likeliest of all tokens, at the places that have a label.
#pragma once

#include <functional>
#include <optional>

#include "data/order/recall.h"
#include "evaluate/answers.h"
#include "evaluate/share.h"

namespace longhaul::evaluate {

struct RecallScore {
  double accuracy = 0;  // of all answers
  double whole = 0;     // share of sequences without a wrong answer
  double loss = 0;      // nats of an answer
  int64_t answers = 0, sequences = 0;
};

// Sequences that are never trained on: training takes indexes from 0 upwards.
inline int64_t held_out_index(int64_t i) { return -1 - i; }

// go_on is asked after every few sequences; nothing: it said no, and all ranks must then stop.
std::optional<RecallScore> score_recall(Answers& answers, const data::RecallShape& shape, uint64_t seed, int64_t sequences,
                                        const std::function<bool()>& go_on = {}, const EvaluationShare& share = {});

}  // namespace longhaul::evaluate
