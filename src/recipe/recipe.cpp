#include "recipe/recipe.h"

namespace longhaul::recipe {

OptionSet options_of(Recipe& recipe) {
  OptionSet set;
  set.add("description", recipe.description, "What this recipe is for; shown when a run starts.").may_change();
  declare(set, recipe.model);
  declare(set, recipe.data);
  declare(set, recipe.train);
  declare(set, recipe.recall);
  declare(set, recipe.optim);
  declare(set, recipe.sample);
  declare(set, recipe.parallel);
  declare(set, recipe.observe);
  declare(set, recipe.guard);
  return set;
}

}  // namespace longhaul::recipe
