#include "evaluate/choice.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"
#include "data/tokenizer/wide_ids.h"

namespace longhaul::evaluate {
namespace {

// Characters as Python counts them: code points. Bytes that are not UTF-8 count one each.
int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

int64_t first_largest(const std::vector<double>& values) {
  return std::ranges::max_element(values) - values.begin();
}

Passage passage_of(const EncodedPair& pair) {
  Passage passage{.ids = pair.ids, .targets = {}};
  const auto length = static_cast<int64_t>(pair.ids.size());
  for (int64_t t = length - pair.scored; t < length; ++t)
    passage.targets.push_back({t - 1, pair.ids[static_cast<size_t>(t)]});
  passage.ids.pop_back();  // nothing is asked of what follows the last
  return passage;
}

double sum_of(const std::vector<Judged>& judged) {
  double sum = 0;
  for (const Judged& token : judged) sum += token.log_probability;
  return sum;
}

// A context and its continuation, each as the tokenizer has it.
struct Joined {
  std::vector<int64_t> before;        // what stands before both
  std::vector<int32_t> alone, whole;  // the context; both together
  size_t agree() const {              // tokens in which they are the same
    return static_cast<size_t>(std::ranges::mismatch(alone, whole).in1 - alone.begin());
  }
};

// As the harness: a template's tokens, unless the text spells them itself. A tokenizer made here has no
// template, and begins every document alike.
std::vector<int64_t> before_context(const data::Tokenizer& tokenizer, const std::string& context,
                                    ChoicePrefix prefix) {
  const auto separator = tokenizer.end_of_document();
  const bool made_here = separator && tokenizer.token_of(*separator) == data::kEndOfDocument;
  if (prefix == ChoicePrefix::kSeparator ||
      (made_here && prefix == ChoicePrefix::kTemplate && tokenizer.before().empty()))
    return separator ? std::vector<int64_t>{*separator} : std::vector<int64_t>();
  if (prefix == ChoicePrefix::kNone) return {};
  const std::vector<int32_t> own = tokenizer.encode(context), prompt = tokenizer.encode_prompt(context);
  if (tokenizer.before().empty() || prompt == own) return {};
  return data::wide_ids(tokenizer.before());
}

Joined join(const data::Tokenizer& tokenizer, std::string context, std::string continuation,
            ChoicePrefix prefix) {
  const size_t end = context.find_last_not_of(" \t\n\v\f\r") + 1;  // of nothing but spaces: 0
  continuation = context.substr(end) + continuation;
  context.resize(end);
  return {before_context(tokenizer, context, prefix), tokenizer.encode(context),
          tokenizer.encode(context + continuation)};
}

// A token is judged by what stands before it: where that is nothing, a text begins.
void require_something_before(const data::Tokenizer& tokenizer, EncodedPair& pair) {
  if (pair.scored < static_cast<int64_t>(pair.ids.size())) return;
  const std::vector<int64_t> beginning = data::wide_ids(tokenizer.beginning());
  if (beginning.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has nothing to begin a text with",
                 .expected = fmt::format("an added token {} (or <|endoftext|>, <|end_of_text|>, </s>)",
                                         data::kEndOfDocument),
                 .found = "none",
                 .hint = "data.end_of_document in the checkpoint's recipe names it"});
  }
  pair.ids.insert(pair.ids.begin(), beginning.begin(), beginning.end());
}

}  // namespace

ChoicePrefix choice_prefix(const std::string& name) {
  if (name == "separator") return ChoicePrefix::kSeparator;
  return name == "none" ? ChoicePrefix::kNone : ChoicePrefix::kTemplate;
}

EncodedPair encode_pair(const data::Tokenizer& tokenizer, const std::string& context,
                        const std::string& continuation, ChoicePrefix prefix) {
  const Joined joined = join(tokenizer, context, continuation, prefix);
  EncodedPair pair{.ids = joined.before, .scored = 0};
  pair.ids.insert(pair.ids.end(), joined.alone.begin(), joined.alone.end());
  if (joined.whole.size() > joined.alone.size())
    pair.ids.insert(pair.ids.end(), joined.whole.begin() + static_cast<ptrdiff_t>(joined.alone.size()),
                    joined.whole.end());
  pair.scored = static_cast<int64_t>(pair.ids.size() - joined.before.size() - joined.alone.size());
  require_something_before(tokenizer, pair);
  return pair;
}

std::vector<EncodedPair> encode_choices(const data::Tokenizer& tokenizer, const ChoiceItem& item,
                                        ChoicePrefix prefix) {
  const auto context = [&](size_t c) { return item.contexts[item.contexts.size() == 1 ? 0 : c]; };
  std::vector<EncodedPair> pairs;
  for (size_t c = 0; c < item.continuations.size(); ++c)
    pairs.push_back(encode_pair(tokenizer, context(c), item.continuations[c], prefix));
  if (std::ranges::none_of(pairs, [](const EncodedPair& pair) { return pair.scored == 0; })) return pairs;
  std::vector<Joined> joined;
  for (size_t c = 0; c < pairs.size(); ++c)
    joined.push_back(join(tokenizer, context(c), item.continuations[c], prefix));
  // one place of the text for all choices of a context
  const size_t first = std::ranges::min(joined, {}, &Joined::agree).agree();
  for (size_t c = 0; c < pairs.size(); ++c) {
    const Joined& own = joined[c];
    const size_t from = item.contexts.size() == 1 ? first : own.agree();
    if (from >= own.whole.size()) {
      throw Error({.code = ExitCode::kData,
                   .what = "a choice has no token of its own",
                   .expected = "choices that add something to their context",
                   .found = brief(item.continuations[c]),
                   .where = item.where});
    }
    pairs[c] = {.ids = own.before, .scored = static_cast<int64_t>(own.whole.size() - from)};
    pairs[c].ids.insert(pairs[c].ids.end(), own.whole.begin(), own.whole.end());
    require_something_before(tokenizer, pairs[c]);
  }
  return pairs;
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

namespace {

// Inputs are the model's positions at most: what is too long loses its front. True: it did.
bool cut_to(EncodedPair& pair, int64_t positions, const ChoiceItem& item) {
  const auto length = static_cast<int64_t>(pair.ids.size());
  if (positions == 0 || length - 1 <= positions) return false;
  if (pair.scored > positions) {
    throw Error({.code = ExitCode::kData,
                 .what = "a choice alone is longer than the model's positions",
                 .expected = fmt::format("at most {} tokens", positions),
                 .found = counted(pair.scored, "token"),
                 .where = item.where,
                 .hint = "leave the question out, or use a model with more positions"});
  }
  pair.ids.erase(pair.ids.begin(), pair.ids.end() - (positions + 1));
  return true;
}

struct ScoredItem {
  ChoiceOutcome outcome;
  bool cut = false;
};

ScoredItem score(Answers& answers, const data::Tokenizer& tokenizer, const ChoiceItem& item,
                 const ChoiceSettings& settings) {
  ScoredItem scored;
  std::vector<EncodedPair> pairs = encode_choices(tokenizer, item, settings.prefix);
  const size_t count = pairs.size();
  for (const std::string& continuation : item.continuations)
    pairs.push_back(encode_pair(tokenizer, "", continuation, settings.prefix));
  std::vector<Passage> passages;
  for (EncodedPair& pair : pairs) {
    scored.cut = cut_to(pair, settings.positions, item) || scored.cut;
    passages.push_back(passage_of(pair));
  }
  const auto judged = answers.judge(passages);
  ChoiceScores scores;
  for (size_t c = 0; c < count; ++c) {
    scores.conditional.push_back(sum_of(judged[c]));
    scores.unconditional.push_back(sum_of(judged[count + c]));
  }
  scored.outcome = outcome_of(item, scores);
  return scored;
}

}  // namespace

ChoiceResult score_choices(Answers& answers, const data::Tokenizer& tokenizer,
                           const std::vector<ChoiceItem>& items, const ChoiceSettings& settings,
                           const std::function<void()>& progress, const EvaluationShare& share) {
  ChoiceResult result{.items = static_cast<int64_t>(items.size())};
  // right by each of the four scores, and cut, of the items that are this rank's
  std::vector<double> sums(5, 0.0);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto choices = static_cast<int64_t>(items[i].continuations.size());
    if (share.has(static_cast<int64_t>(i))) {
      const auto [outcome, cut] = score(answers, tokenizer, items[i], settings);
      const bool each[] = {outcome.acc, outcome.acc_norm, outcome.acc_bytes, outcome.acc_mutual_info, cut};
      for (size_t s = 0; s < sums.size(); ++s) sums[s] += each[s];
    }
    result.choices += choices;
    result.chance += 1 / static_cast<double>(choices);
    if (progress) progress();
  }
  share.complete(sums);
  result.acc = sums[0], result.acc_norm = sums[1], result.acc_bytes = sums[2],
  result.acc_mutual_info = sums[3];
  result.cut = static_cast<int64_t>(sums[4]);
  const auto n = static_cast<double>(items.size());
  for (double* mean :
       {&result.acc, &result.acc_norm, &result.acc_bytes, &result.acc_mutual_info, &result.chance})
    *mean /= n;
  const auto error = [n](double p) { return n > 1 ? std::sqrt(p * (1 - p) / (n - 1)) : 0.0; };
  result.acc_error = error(result.acc);
  result.acc_norm_error = error(result.acc_norm);
  return result;
}

}  // namespace longhaul::evaluate
