// start_warnings: what whoever starts or continues a run should know before it takes hours: a choice that is allowed and seldom meant, or that nothing reads.
// Sentences for people; empty: nothing to say, or no step is left to do. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace longhaul::run {

struct StartFacts {
  int64_t training_tokens = 0;            // of one epoch
  int64_t resume_step = 0;                // steps done by earlier starts
  std::optional<recipe::Recipe> earlier;  // what those were done with
  std::vector<std::string> unread{};      // recipe::unread_options
  bool reads_text = true;                 // the task learns from [data]
  int64_t cores = 0;                      // that this process may use; 0: unknown
};

std::vector<std::string> start_warnings(const recipe::Recipe& recipe, const StartFacts& facts);

}  // namespace longhaul::run
