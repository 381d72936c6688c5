// The recipe's part of a run's page.
#include "observe/report.h"
#include "recipe/compare.h"
#include "recipe/load.h"

namespace longhaul::observe {

std::vector<RecipeChange> recipe_changes(const std::filesystem::path& recipe_file) {
  std::vector<RecipeChange> changes;
  for (const auto& difference : recipe::differences(recipe::load_defaults(), recipe::load(recipe_file))) {
    changes.push_back({difference.key, difference.second.toml(), difference.first.toml(), difference.second_origin});
  }
  return changes;
}

}  // namespace longhaul::observe
