// Writers: a recipe as TOML (for a run directory), as JSON, and in words; and the reference page of all
// options.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

#include "recipe/load.h"

namespace longhaul::recipe {

// Every option with its resolved value and, as a comment, its origin. load() reads the text back to an equal
// Recipe with the same origins.
std::string to_toml(const LoadedRecipe& loaded);
// Every option and its value as TOML: {"optim.lr", "0.25"}.
std::vector<std::pair<std::string, std::string>> option_values(const Recipe& recipe);
// {"version": 1, "model": {…}, "train": {…}, …, "origins": {"train.steps": "command line", …}}
nlohmann::ordered_json to_json(const LoadedRecipe& loaded);
// Describes one option (or every option of a section): value, origin, default, type, range, unit, sentence,
// behaviour on resume. Throws kUsage for an unknown key, with the nearest one.
std::string explain(const LoadedRecipe& loaded, const std::string& key);
std::string reference_markdown();  // docs/reference/recipe.md
// docs/reference/tasks.md: of the options that tasks have declared (sections/outside_options.h).
std::string task_reference_markdown();

}  // namespace longhaul::recipe
