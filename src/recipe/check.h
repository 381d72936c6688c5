// check() refuses impossible combinations of options before anything else starts, and gives the reason.
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

std::vector<Problem> problems(const Recipe& recipe);      // all problems, not only the first
std::vector<Problem> problems(const ModelConfig& model);  // of the model options only
// throws kUsage with a list of all, with the origins of the values
void check(const LoadedRecipe& loaded);
void check(const Recipe& recipe);

}  // namespace longhaul::recipe
