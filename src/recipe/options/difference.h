// Comparing recipes: what differs, and whether a stopped run may go on under a changed recipe.
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
std::string diff(const LoadedRecipe& first, const LoadedRecipe& second);  // aligned lines; empty when they are equal

// `saved`: the run directory's recipe.toml; `now`: what is asked for. Throws kUsage listing every option that must stay the same
// and does not: key, saved value and its origin, new value and its origin, and what to type.
void refuse_changed(const LoadedRecipe& saved, const LoadedRecipe& now);
// Whether options of [optim] differ that must stay the same, and optim.fresh_states allows it: the optimizer's states are to begin at zero.
bool begins_fresh_states(const LoadedRecipe& saved, const LoadedRecipe& now);

}  // namespace longhaul::recipe
