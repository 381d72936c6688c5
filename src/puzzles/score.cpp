#include "puzzles/score.h"

#include "puzzles/engine/answers/answer.h"

namespace longhaul::puzzles {

double Score::cascade() const {
  double passed = 0;
  for (const bool part : {format, readable, shape, rules}) {
    if (!part) break;
    passed += 0.25;
  }
  return passed;
}

Score score_of(std::string_view response, const Verdict& verdict) {
  Score score{.format = has_strict_format(response)};
  score.readable = verdict.code != VerdictCode::kNoPayload && verdict.code != VerdictCode::kUnreadable;
  score.shape = score.readable && verdict.code != VerdictCode::kShape;
  score.rules = verdict.accepted();
  return score;
}

nlohmann::ordered_json to_json(const Score& score) {
  return {{"reward", score.reward()},   {"cascade", score.cascade()}, {"format", score.format},
          {"readable", score.readable}, {"shape", score.shape},       {"rules", score.rules}};
}

}  // namespace longhaul::puzzles
