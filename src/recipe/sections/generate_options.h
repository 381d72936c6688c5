// GenerateOptions: [sample] of a recipe: the completion printed at the end of a run, and the defaults of
// `longhaul sample`. Plain data; declared in generate_options.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::recipe {

class OptionSet;

struct GenerateOptions {
  std::string prompt;        // empty: the beginning of a held-out document
  int64_t tokens = 100;      // new tokens; 0: no sample at the end of a run
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // keep the k likeliest tokens; 0: all
  double top_p = 0.95;       // keep the likeliest tokens whose probabilities sum to this; 1: all
  int64_t seed = 0;
  bool operator==(const GenerateOptions&) const = default;
};

void declare(OptionSet& set, GenerateOptions& sample);

}  // namespace longhaul::recipe
