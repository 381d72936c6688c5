// Samples the next token from a row of logits. Temperature divides the logits; min-p leaves out tokens that
// are much less likely than the likeliest one (arXiv 2407.01082); top-k keeps the k likeliest tokens; top-p
// then keeps the shortest run of the likeliest tokens whose probabilities reach p (Holtzman et al. 2019,
// arXiv 1904.09751); one of the remaining tokens is drawn. Tokens are ordered by logit, equal ones by id. The
// draw of token `index` uses number `index` of the seed's stream "generate", so the same logits give the same
// text on every machine. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::generate {

struct SamplerSettings {
  double temperature = 1.0;  // ≥ 0; 0: the likeliest token, among equals the lowest id
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // in (0, 1]; 1: all
  // in [0, 1]; tokens less likely than min_p times the likeliest one are left out, before top-k
  double min_p = 0.0;
  uint64_t seed = 0;
};

void check(const SamplerSettings& settings);  // kUsage error for a value out of range

// The id of the next token; `index` counts the tokens drawn so far. Logits without a finite largest value are
// a kNumeric error.
int64_t next_token(std::span<const float> logits_v, const SamplerSettings& settings, uint64_t index);

// The natural logarithm of the probability that the token has under the temperature alone, before top-k and
// top-p; temperature 0 counts as 1. In fp64.
double log_probability(std::span<const float> logits_v, int64_t id, double temperature);
double log_probability(std::span<const double> logits_v, int64_t id, double temperature);

struct TokenProbability {
  int64_t id = 0;
  double log_probability = 0;
};
// The `count` likeliest tokens, likeliest first, equal ones by id, with probabilities as log_probability has
// them.
std::vector<TokenProbability> likeliest_tokens(std::span<const float> logits_v, int64_t count,
                                               double temperature);
std::vector<TokenProbability> likeliest_tokens(std::span<const double> logits_v, int64_t count,
                                               double temperature);

}  // namespace longhaul::generate
