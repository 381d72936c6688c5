// The recipe's part of a run's page.
#include "observe/report/report.h"
#include "recipe/load.h"
#include "recipe/options/difference.h"

namespace longhaul::observe {

std::vector<RecipeChange> recipe_changes(const std::filesystem::path& recipe_file) {
  std::vector<RecipeChange> changes;
  const recipe::LoadedRecipe loaded = recipe::load(recipe_file);
  for (const auto& difference : recipe::differences(recipe::load_defaults(), loaded)) {
    // The origin that the run's folder gives, if any.
    const std::string& earlier = loaded.origin(difference.key).earlier;
    changes.push_back({difference.key, difference.second.toml(), difference.first.toml(),
                       earlier.empty() ? difference.second_origin : earlier});
  }
  return changes;
}

}  // namespace longhaul::observe
