#include "evaluate/choice.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace longhaul::evaluate {
namespace {

// Characters as Python counts them: code points. Bytes that are not UTF-8 count one each.
int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

int64_t first_largest(const std::vector<double>& values) { return std::ranges::max_element(values) - values.begin(); }

Passage passage_of(const EncodedPair& pair) {
  Passage passage{.ids = pair.ids, .targets = {}};
  const auto length = static_cast<int64_t>(pair.ids.size());
  for (int64_t t = length - pair.scored; t < length; ++t) passage.targets.push_back({t - 1, pair.ids[static_cast<size_t>(t)]});
  passage.ids.pop_back();  // nothing is asked of what follows the last
  return passage;
}

double sum_of(const std::vector<Judged>& judged) {
  double sum = 0;
  for (const Judged& token : judged) sum += token.log_probability;
  return sum;
}

}  // namespace

EncodedPair encode_pair(const data::Tokenizer& tokenizer, std::string context, std::string continuation) {
  const size_t end = context.find_last_not_of(" \t\n\v\f\r") + 1;  // of nothing but spaces: 0
  continuation = context.substr(end) + continuation;
  context.resize(end);
  EncodedPair pair;
  const auto separator = tokenizer.end_of_document();
  if (!separator) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has nothing to begin a text with",
                 .expected = fmt::format("an added token {} (or <|endoftext|>, <|end_of_text|>, </s>)", data::kEndOfDocument),
                 .found = "none"});
  }
  pair.ids.push_back(*separator);
  const std::vector<int32_t> alone = tokenizer.encode(context), whole = tokenizer.encode(context + continuation);
  pair.ids.insert(pair.ids.end(), alone.begin(), alone.end());
  if (whole.size() > alone.size()) pair.ids.insert(pair.ids.end(), whole.begin() + static_cast<ptrdiff_t>(alone.size()), whole.end());
  pair.scored = static_cast<int64_t>(pair.ids.size() - 1 - alone.size());
  return pair;
}

ChoiceOutcome outcome_of(const ChoiceItem& item, const ChoiceScores& scores) {
  std::vector<double> by_characters, by_bytes, gained;
  for (size_t c = 0; c < item.choices.size(); ++c) {
    by_characters.push_back(scores.conditional[c] / static_cast<double>(characters(item.choices[c])));
    by_bytes.push_back(scores.conditional[c] / static_cast<double>(item.choices[c].size()));
    gained.push_back(scores.conditional[c] - scores.unconditional[c]);
  }
  return {.acc = first_largest(scores.conditional) == item.gold,
          .acc_norm = first_largest(by_characters) == item.gold,
          .acc_bytes = first_largest(by_bytes) == item.gold,
          .acc_mutual_info = first_largest(gained) == item.gold};
}

static ChoiceOutcome outcome_of(Answers& answers, const data::Tokenizer& tokenizer, const ChoiceItem& item) {
  const size_t count = item.continuations.size();
  std::vector<Passage> passages;
  for (size_t c = 0; c < count; ++c)
    passages.push_back(passage_of(encode_pair(tokenizer, item.contexts[item.contexts.size() == 1 ? 0 : c], item.continuations[c])));
  for (const std::string& continuation : item.continuations) passages.push_back(passage_of(encode_pair(tokenizer, "", continuation)));
  const auto judged = answers.judge(passages);
  ChoiceScores scores;
  for (size_t c = 0; c < count; ++c) {
    scores.conditional.push_back(sum_of(judged[c]));
    scores.unconditional.push_back(sum_of(judged[count + c]));
  }
  return outcome_of(item, scores);
}

ChoiceResult score_choices(Answers& answers, const data::Tokenizer& tokenizer, const std::vector<ChoiceItem>& items,
                           const std::function<void()>& progress, const EvaluationShare& share) {
  ChoiceResult result{.items = static_cast<int64_t>(items.size())};
  std::vector<double> right(4, 0.0);  // by each of the four scores, of the items that are this rank's
  for (size_t i = 0; i < items.size(); ++i) {
    const auto choices = static_cast<int64_t>(items[i].continuations.size());
    if (share.has(static_cast<int64_t>(i))) {
      const ChoiceOutcome outcome = outcome_of(answers, tokenizer, items[i]);
      right[0] += outcome.acc;
      right[1] += outcome.acc_norm;
      right[2] += outcome.acc_bytes;
      right[3] += outcome.acc_mutual_info;
    }
    result.choices += choices;
    result.chance += 1 / static_cast<double>(choices);
    if (progress) progress();
  }
  share.complete(right);
  result.acc = right[0], result.acc_norm = right[1], result.acc_bytes = right[2], result.acc_mutual_info = right[3];
  const auto n = static_cast<double>(items.size());
  for (double* mean : {&result.acc, &result.acc_norm, &result.acc_bytes, &result.acc_mutual_info, &result.chance}) *mean /= n;
  const auto error = [n](double p) { return n > 1 ? std::sqrt(p * (1 - p) / (n - 1)) : 0.0; };
  result.acc_error = error(result.acc);
  result.acc_norm_error = error(result.acc_norm);
  return result;
}

}  // namespace longhaul::evaluate
