// Requests for the tests of the engine.
#pragma once

#include <vector>

#include "generate/engine.h"

namespace longhaul::generate {

inline constexpr int64_t kPageOfEngine = PrefixCache::kTokens;

// What came of requests, by request and sequence.
using Texts = std::vector<std::vector<Generation>>;

struct Wanted {
  std::vector<int64_t> prompt;
  GenerateSettings settings;
};

inline GenerateSettings exact_settings(uint64_t seed, int64_t tokens) {
  return {.tokens = tokens,
          .temperature = 1.1,
          .top_p = 0.98,
          .frequency_penalty = 0.3,
          .seed = seed,
          .log_probabilities = true,
          .top_log_probabilities = 3};
}

inline Request request_of(const Wanted& wanted, std::vector<Generation>& into) {
  into.resize(static_cast<size_t>(wanted.settings.count));
  return {.prompt = wanted.prompt,
          .settings = wanted.settings,
          .on_end = [&into](int64_t sequence, Generation generation) {
            into[static_cast<size_t>(sequence)] = std::move(generation);
          }};
}

}  // namespace longhaul::generate
