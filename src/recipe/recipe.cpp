#include "recipe/recipe.h"

namespace longhaul::recipe {

OptionSet options_of(Recipe& recipe) {
  OptionSet set;
  set.add("description", recipe.description, "What this recipe is for; shown when a run starts.")
      .may_change();
  declare(set, recipe.model);
  declare(set, recipe.data);
  declare(set, recipe.train);
  set.add("train.freeze", recipe.model.frozen,
          "Patterns of names of tensors that keep their values: [\"layers.0.*\", \"embedding.weight\"]; * "
          "stands for any letters, ? for one. Such "
          "tensors have no gradient, no optimizer state and no weight decay, and no work is done for them. "
          "Tensors of one matrix product "
          "are frozen together.");
  declare(set, recipe.model.lora);
  declare(set, recipe.model.spikes);
  declare(set, recipe.recall);
  declare(set, recipe.optim);
  declare(set, recipe.sample);
  declare(set, recipe.parallel);
  declare(set, recipe.observe);
  declare(set, recipe.guard);
  declare(set, recipe.outside);
  return set;
}

}  // namespace longhaul::recipe
