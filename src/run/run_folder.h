// The folder of a run, before anything is put there: an earlier run in it, and whether this process may write.
#pragma once

#include <filesystem>

#include "observe/events/event_log.h"
#include "recipe/load.h"

namespace longhaul::run {

// Where a run lies when nobody says: runs/<name of its recipe>.
std::filesystem::path default_run_folder(const std::string& recipe);

// An earlier run in the folder: moved aside when a fresh one is asked for (and no process is at it), else compared with what is
// asked for now (kUsage). recipe.toml may have been edited or lost; what the newest checkpoint recorded counts as well.
void settle_earlier_run(const recipe::LoadedRecipe& recipe, const std::filesystem::path& folder, bool fresh);

// Before minutes go into preparing data: the folder is there, can be written, and no other process is at this run.
observe::EventWriter open_run_folder(const std::filesystem::path& folder);

}  // namespace longhaul::run
