// Recall of random tokens (data/order/recall.h): the share of right answers at the positions that have a
// label, where the answer is the likeliest of all tokens.
#pragma once

#include <functional>
#include <optional>

#include "data/order/recall.h"
#include "evaluate/answers.h"
#include "evaluate/share.h"

namespace longhaul::evaluate {

struct RecallScore {
  double accuracy = 0;  // share of right answers
  double whole = 0;     // share of sequences without a wrong answer
  double loss = 0;      // nats per answer
  int64_t answers = 0, sequences = 0;
};

// The index of a sequence that is never trained on: training uses indexes from 0 upwards.
inline int64_t held_out_index(int64_t i) { return -1 - i; }

// go_on is called after every few sequences. Returns nothing if it returned false; it must then return
// false on all ranks.
std::optional<RecallScore> score_recall(Answers& answers, const data::RecallShape& shape, uint64_t seed,
                                        int64_t sequences, const std::function<bool()>& go_on = {},
                                        const EvaluationShare& share = {});

}  // namespace longhaul::evaluate
