// saved_recipe: reads the recipe from a checkpoint's manifest, as it was resolved when the checkpoint was
// saved.
//
// A manifest may come from another machine, so its recipe must be complete in itself: a recipe that names a
// `base` (a file of this machine) is refused. This, and any other reason why the recipe cannot be
// understood, is an Error with exit code 66 that names the manifest.
#pragma once

#include "recipe/load.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

recipe::LoadedRecipe saved_recipe(const storage::Checkpoint& checkpoint);

}  // namespace longhaul::checkpoint
