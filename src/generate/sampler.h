// The next token from a row of logits. Temperature divides the logits; top-k keeps the k likeliest tokens; top-p then keeps the
// shortest run of the likeliest whose probabilities reach p (Holtzman et al. 2019, arXiv 1904.09751); one of what is left is drawn.
// Tokens are ordered by logit, equal ones by id. The draw of token `index` is number `index` of the stream "generate" of the
// seed, so the same logits give the same text on every machine. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace longhaul::generate {

struct SamplerSettings {
  double temperature = 1.0;  // ≥ 0; 0: the likeliest token, of equal ones the lowest id
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // in (0, 1]; 1: all
  uint64_t seed = 0;
};

void check(const SamplerSettings& settings);  // kUsage error for what is out of range

// The id of the next token; `index` counts the tokens drawn so far. Logits without a finite largest value are a kNumeric error.
int64_t next_token(std::span<const float> logits_v, const SamplerSettings& settings, uint64_t index);

// The natural logarithm of the probability that the token has by temperature alone, before top-k and top-p; at temperature 0 as at 1. In fp64.
double log_probability(std::span<const float> logits_v, int64_t id, double temperature);

}  // namespace longhaul::generate
