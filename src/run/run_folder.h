// The folder of a run before anything is written there: what happens to an earlier run in it, and whether
// this process may write.
#pragma once

#include <filesystem>

#include "observe/events/event_log.h"
#include "recipe/load.h"

namespace longhaul::run {

// The default folder of a run: runs/<name of its recipe>.
std::filesystem::path default_run_folder(const std::string& recipe);

// Handles an earlier run in the folder: it is moved aside when a fresh run is requested (and no process uses
// it), otherwise compared with what is requested now (kUsage). Since recipe.toml may have been edited or
// lost, the recipe in the newest checkpoint counts as well.
void settle_earlier_run(const recipe::LoadedRecipe& recipe, const std::filesystem::path& folder, bool fresh);

// Checks, before minutes go into preparing data, that the folder exists and is writable and that no other
// process uses this run.
observe::EventWriter open_run_folder(const std::filesystem::path& folder);

}  // namespace longhaul::run
