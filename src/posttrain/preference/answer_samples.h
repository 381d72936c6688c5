// AnswerSamples: the answers of a run as tokens, in the unit that its loss takes: a pair, or one answer with
// its weight or label. All answers of a sample have the same prompt ids. Samples that cannot be learned from
// are left out and counted: equal answers, an answer without a token, one that does not fit into a row. Plain
// data once made.
#pragma once

#include <array>
#include <optional>

#include "data/chat/chat_format.h"
#include "data/tokenizer/tokenizer.h"
#include "posttrain/preference/answer_rows.h"
#include "posttrain/preference/options.h"

namespace longhaul::posttrain {

// How texts and conversations become ids.
class AnswerEncoder {
 public:
  // format: none where there is no chat template; conversations are then refused (kUsage).
  AnswerEncoder(const data::Tokenizer& tokenizer, std::optional<data::chat::ChatFormat> format);
  // The template of preference.template, else the one beside the tokenizer of [data].
  static AnswerEncoder of(const data::Tokenizer& tokenizer, const recipe::DataOptions& data,
                          const AnswerDataOptions& options);

  struct Encoded {
    std::vector<int32_t> prompt;
    std::vector<std::vector<int32_t>> answers;
  };
  // An answer ends with the token that ends what the model writes, where there is one. kData: a template that
  // writes the prompt differently with different answers.
  Encoded encode(const AnswerRow& row) const;
  const data::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  Encoded encode_texts(const AnswerRow& row) const;
  Encoded encode_messages(const AnswerRow& row) const;

  const data::Tokenizer& tokenizer_;
  std::optional<data::chat::ChatFormat> format_;
  std::optional<int32_t> end_of_text_, end_of_turn_;
};

struct AnswerSample {
  std::vector<int32_t> prompt;
  std::vector<std::vector<int32_t>> answers;  // of a pair: chosen, rejected; else one
  double weight = 1;                          // reward_weighted
  double reward = 0;                          // of the only answer, where it has one
  bool good = true;                           // kto
  std::string where;

  int64_t answer_tokens(size_t answer) const { return static_cast<int64_t>(answers[answer].size()); }
  int64_t inputs(size_t answer) const {
    return static_cast<int64_t>(prompt.size() + answers[answer].size()) - 1;
  }
  int64_t inputs() const;  // of all answers
};

// How rows become samples: what the loss wants, and the longest sample.
struct SampleWish {
  enum class Unit { kPairs, kLabelled, kBest, kScored } unit = Unit::kPairs;
  int64_t sequence = 512;  // inputs of a sample, all its answers together
  int64_t vocabulary = 0;  // rows of the model
};
SampleWish::Unit unit_of(PreferenceLoss loss);

struct AnswerSamples {
  std::vector<AnswerSample> samples;
  int64_t equal = 0, empty = 0, too_long = 0, of_no_use = 0;  // left out
  std::string fingerprint() const;                            // of everything that training sees
};

// kData: nothing is left, a row of another form than the wish takes, or an id for which the model has no row.
AnswerSamples make_samples(const std::vector<AnswerRow>& rows, const AnswerEncoder& encoder,
                           const SampleWish& wish, const std::string& where);

// Training and held-out samples of a recipe; rows that were left out are told in warnings, on `speaks` only.
struct SplitSamples {
  AnswerSamples train, held_out;
  std::string tokenizer_sha256 = {};  // of the tokens
};
SplitSamples open_samples(const AnswerDataOptions& options, const AnswerEncoder& encoder,
                          const SampleWish& wish, bool speaks);

}  // namespace longhaul::posttrain
