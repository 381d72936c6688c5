// saved_recipe: the recipe inside a checkpoint's manifest, as it was resolved when the checkpoint was saved.
//
// A manifest may come from anywhere, so its recipe must be complete in itself: one that names a `base` (a file of this machine) is
// refused. That, and whatever else keeps it from being understood, is an Error with exit code 66 that names the manifest.
#pragma once

#include "recipe/load.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

recipe::LoadedRecipe saved_recipe(const storage::Checkpoint& checkpoint);

}  // namespace longhaul::checkpoint
