// TokenHistory: the tokens of one sequence so far, counted for the penalties that change its next logits:
//
//   logit > 0:  logit / repetition, else logit · repetition    of every token of prompt and text (arXiv
//                                                              1909.05858)
//   logit − frequency · count − presence                       of every token of the text
//   logit + bias                                               of the tokens that the request names
//
// in this order, before the temperature.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "generate/settings.h"

namespace longhaul::generate {

class TokenHistory {
 public:
  TokenHistory(const std::vector<int64_t>& prompt, const GenerateSettings& settings);
  void add(int64_t id);  // a token of the text
  // Whether the logits of the next token differ from the model's.
  bool changes(const GenerateSettings& settings, int64_t drawn) const;
  // `drawn`: tokens of the text. Ids beyond the logits are ignored.
  template <class Logit>
  void change(std::span<Logit> logits_v, const GenerateSettings& settings, int64_t drawn) const;

 private:
  std::map<int64_t, int64_t> seen_;  // how often each stands in the text; empty where no penalty asks for it
  bool counts_;
};

}  // namespace longhaul::generate
