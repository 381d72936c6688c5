#include "posttrain/preference/scored_answers.h"

#include "base/error.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "tensor/to_tensor.h"

namespace longhaul::posttrain {
namespace {

void require_ids(const std::vector<int64_t>& ids, int64_t rows, const std::string& where) {
  if (ids.empty())
    throw Error({.code = ExitCode::kData, .what = "an answer and its prompt have no token", .where = where});
  for (const int64_t id : ids) {
    if (id < rows) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "an answer or its prompt holds a token for which the model has no row",
                 .expected = fmt::format("ids from 0 to {}", rows - 1),
                 .found = std::to_string(id),
                 .where = where,
                 .hint = "the tokenizer must be the one that the model was trained with"});
  }
}

}  // namespace

std::vector<double> scores_of_answers(model::Decoder& decoder, int32_t token,
                                      const AnswerEncoder::Encoded& encoded, const std::string& where) {
  const at::NoGradGuard no_gradient;
  std::vector<double> scores;
  for (const std::vector<int32_t>& answer : encoded.answers) {
    std::vector<int64_t> ids(encoded.prompt.begin(), encoded.prompt.end());
    ids.insert(ids.end(), answer.begin(), answer.end());
    require_ids(ids, decoder.config().vocabulary, where);
    const auto tokens = static_cast<int64_t>(ids.size());
    model::LocalOps ops;
    model::Context context(ops, decoder.precision());
    context.training = false;
    const Tensor hidden =
        decoder.hidden(context, to_tensor(std::span<const int64_t>(ids)), layout::make_single(tokens));
    scores.push_back(decoder.logits(hidden.narrow(0, tokens - 1, 1))[0][token].item<double>());
  }
  return scores;
}

void RankingAgreement::compare(double higher, double lower) {
  ++pairs_;
  right_ += higher > lower ? 1 : higher == lower ? 0.5 : 0;
}

void RankingAgreement::add(const AnswerRow& row, const std::vector<double>& scores) {
  if (row.form == RowForm::kPair) compare(scores[0], scores[1]);
  for (size_t a = 0; a < row.rewards.size(); ++a) {
    for (size_t b = 0; b < row.rewards.size(); ++b) {
      if (row.rewards[a] > row.rewards[b]) compare(scores[a], scores[b]);
    }
  }
}

}  // namespace longhaul::posttrain
