// The judgement of a reward model (reward.h) on the answers of a file: a score for each, and how well the
// scores agree with what the file says of them.
#pragma once

#include "model/decoder.h"
#include "posttrain/preference/answer_samples.h"

namespace longhaul::posttrain {

// The scores of the answers of a row, in their order. kData: no token, or an id for which the model has no
// row.
std::vector<double> scores_of_answers(model::Decoder& decoder, int32_t token,
                                      const AnswerEncoder::Encoded& encoded, const std::string& where);

// Over rows: pairs of answers that the file ranks (chosen and rejected, higher and lower
// reward), and the share of them that the scores rank the same; ties count half.
class RankingAgreement {
 public:
  void add(const AnswerRow& row, const std::vector<double>& scores);
  int64_t pairs() const { return pairs_; }
  double share() const { return pairs_ == 0 ? 0 : right_ / static_cast<double>(pairs_); }

 private:
  void compare(double higher, double lower);
  int64_t pairs_ = 0;
  double right_ = 0;
};

}  // namespace longhaul::posttrain
