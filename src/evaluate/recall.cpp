#include "evaluate/recall.h"

#include <algorithm>

#include "layout/sequence.h"

namespace longhaul::evaluate {
namespace {

constexpr int64_t kTogether = 16;  // sequences handed over at once

Passage passage_of(const data::RecallRow& row) {
  Passage passage{.ids = row.inputs, .targets = {}};
  for (size_t t = 0; t < row.labels.size(); ++t) {
    if (row.labels[t] != layout::kIgnoreLabel) passage.targets.push_back({static_cast<int64_t>(t), row.labels[t]});
  }
  return passage;
}

}  // namespace

std::optional<RecallScore> score_recall(Answers& answers, const data::RecallShape& shape, uint64_t seed, int64_t sequences,
                                        const std::function<bool()>& go_on) {
  RecallScore score{.sequences = sequences};
  int64_t right = 0, whole = 0;
  for (int64_t first = 0; first < sequences; first += kTogether) {
    std::vector<Passage> passages;
    for (int64_t i = first; i < std::min(sequences, first + kTogether); ++i)
      passages.push_back(passage_of(data::recall_row(shape, seed, held_out_index(i))));
    const auto judged = answers.judge(passages);
    for (size_t p = 0; p < passages.size(); ++p) {
      int64_t right_here = 0;
      for (size_t t = 0; t < passages[p].targets.size(); ++t) {
        right_here += judged[p][t].predicted == passages[p].targets[t].id;
        score.loss -= judged[p][t].log_probability;
      }
      const auto asked = static_cast<int64_t>(passages[p].targets.size());
      right += right_here;
      whole += right_here == asked;
      score.answers += asked;
    }
    if (go_on && !go_on()) return std::nullopt;
  }
  score.accuracy = static_cast<double>(right) / static_cast<double>(score.answers);
  score.whole = static_cast<double>(whole) / static_cast<double>(sequences);
  score.loss /= static_cast<double>(score.answers);
  return score;
}

}  // namespace longhaul::evaluate
