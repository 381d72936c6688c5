// check: refuses combinations of options that cannot be right, before anything else starts, with the reason.
// load() calls it; call it again after changing a Recipe in code.
#pragma once

#include <string>
#include <vector>

#include "recipe/load.h"

namespace longhaul::recipe {

struct Problem {
  std::vector<std::string> keys;  // the options involved
  std::string reason;             // "model.kv_heads = 3 must divide model.heads = 8"
  std::string hint;
};

std::vector<Problem> problems(const Recipe& recipe);      // every problem, not only the first
std::vector<Problem> problems(const ModelConfig& model);  // those of the model alone
void check(const LoadedRecipe& loaded);                   // throws kUsage listing all of them with the values' origins
void check(const Recipe& recipe);

}  // namespace longhaul::recipe
