#include "evaluate/recall.h"

#include <algorithm>

#include "layout/sequence.h"

namespace longhaul::evaluate {
namespace {

constexpr int64_t kTogether = 16;  // sequences handed over at once

Passage passage_of(const data::RecallRow& row) {
  Passage passage{.ids = row.inputs, .targets = {}};
  for (size_t t = 0; t < row.labels.size(); ++t) {
    if (row.labels[t] != layout::kIgnoreLabel)
      passage.targets.push_back({static_cast<int64_t>(t), row.labels[t]});
  }
  return passage;
}

}  // namespace

std::optional<RecallScore> score_recall(Answers& answers, const data::RecallShape& shape, uint64_t seed,
                                        int64_t sequences, const std::function<bool()>& go_on,
                                        const EvaluationShare& share) {
  RecallScore score{.sequences = sequences};
  struct OfSequence {
    double right = 0, asked = 0, nats = 0;
  };
  std::vector<OfSequence> found(static_cast<size_t>(sequences));  // nothing where another rank has it
  for (int64_t first = 0; first < sequences; first += kTogether) {
    if (!share.has(first / kTogether)) {
      if (go_on && !go_on()) return std::nullopt;
      continue;
    }
    std::vector<Passage> passages;
    for (int64_t i = first; i < std::min(sequences, first + kTogether); ++i)
      passages.push_back(passage_of(data::recall_row(shape, seed, held_out_index(i))));
    const auto judged = answers.judge(passages);
    for (size_t p = 0; p < passages.size(); ++p) {
      OfSequence& here = found[static_cast<size_t>(first) + p];
      here.asked = static_cast<double>(passages[p].targets.size());
      for (size_t t = 0; t < passages[p].targets.size(); ++t) {
        here.right += judged[p][t].predicted == passages[p].targets[t].id;
        here.nats -= judged[p][t].log_probability;
      }
    }
    if (go_on && !go_on()) return std::nullopt;
  }
  std::vector<double> numbers;
  for (const OfSequence& each : found) numbers.insert(numbers.end(), {each.right, each.asked, each.nats});
  share.complete(numbers);
  double right = 0;
  int64_t whole = 0;
  for (size_t i = 0; i < numbers.size(); i += 3) {
    right += numbers[i];
    whole += numbers[i] == numbers[i + 1];
    score.answers += static_cast<int64_t>(numbers[i + 1]);
    score.loss += numbers[i + 2];
  }
  score.accuracy = right / static_cast<double>(score.answers);
  score.whole = static_cast<double>(whole) / static_cast<double>(sequences);
  score.loss /= static_cast<double>(score.answers);
  return score;
}

}  // namespace longhaul::evaluate
