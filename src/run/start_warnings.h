// start_warnings: warnings for a person who starts or continues a run, before it takes hours: about allowed
// choices that are rarely intended, and about options that nothing reads. Returns sentences; an empty list
// means that there is nothing to say, or that no step is left. Pure.
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
  std::optional<recipe::Recipe> earlier;  // the recipe of those steps
  std::vector<std::string> unread{};      // recipe::unread_options
  bool reads_text = true;                 // the task learns from [data]
  bool begins_with_weights = true;        // earlier steps', or those of another run or model
  int64_t cores = 0;                      // cores that this process may use; 0: unknown
};

std::vector<std::string> start_warnings(const recipe::Recipe& recipe, const StartFacts& facts);

}  // namespace longhaul::run
