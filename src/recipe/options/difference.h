// Comparison of recipes: what differs, and whether a stopped run may continue under a changed recipe.
#pragma once

#include <string>
#include <vector>

#include "recipe/load.h"

namespace longhaul::recipe {

struct Difference {
  std::string key;
  Value first, second;
  std::string first_origin, second_origin;
  OnResume on_resume = OnResume::kSame;
};

std::vector<Difference> differences(const LoadedRecipe& first, const LoadedRecipe& second);
// Aligned lines; empty when they are equal.
std::string diff(const LoadedRecipe& first, const LoadedRecipe& second);

// `saved`: the run directory's recipe.toml; `now`: the requested recipe. Throws kUsage with a list of every
// option that must stay the same but does not: key, saved value and its origin, new value and its origin, and
// what to type.
void refuse_changed(const LoadedRecipe& saved, const LoadedRecipe& now);
// True if options of [optim] that must stay the same differ, and optim.fresh_states allows it: the optimizer
// states then start at zero.
bool begins_fresh_states(const LoadedRecipe& saved, const LoadedRecipe& now);

}  // namespace longhaul::recipe
