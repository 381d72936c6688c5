#include "run/run_folder.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/log.h"
#include "checkpoint/saved_recipe.h"
#include "recipe/options/difference.h"
#include "storage/catalog.h"

namespace longhaul::run {

std::filesystem::path default_run_folder(const std::string& recipe) {
  return std::filesystem::path("runs") / std::filesystem::path(recipe).stem();
}

namespace {

recipe::LoadedRecipe recipe_beside(const std::filesystem::path& path) {
  try {
    return recipe::load(path);
  } catch (const Error& error) {
    ErrorFields fields = error.fields();
    fields.what = "the recipe.toml in the run folder cannot be read: " + fields.what;
    fields.hint = fmt::format("remove {}: each checkpoint holds the recipe too, and the file is written anew",
                              path.string());
    throw Error(std::move(fields));
  }
}

}  // namespace

void settle_earlier_run(const recipe::LoadedRecipe& recipe, const std::filesystem::path& folder, bool fresh) {
  const auto saved_recipe = folder / "recipe.toml";
  if (fresh && std::filesystem::exists(folder)) {
    const auto aside = fmt::format("{}.before-{:.0f}", folder.string(), wall_time_s());
    const FileLock nobody_is_at_it(folder / "events.jsonl");
    rename_path(folder, aside);
    log_info("the earlier run now lies in {}", aside);
    return;
  }
  if (std::filesystem::exists(saved_recipe)) recipe::refuse_changed(recipe_beside(saved_recipe), recipe);
  storage::LocalFileSystem files;
  const auto checkpoints = storage::list_checkpoints(files, folder / "checkpoints");
  if (checkpoints.empty() || !checkpoints.front().usable()) return;
  recipe::refuse_changed(checkpoint::saved_recipe(storage::Checkpoint::open(files, checkpoints.front().path)),
                         recipe);
}

observe::EventWriter open_run_folder(const std::filesystem::path& folder) {
  try {
    make_folders(folder);
    return observe::EventWriter({.path = folder / "events.jsonl", .claim_generation = [&](int64_t last) {
                                   return storage::claim_generation(storage::local_file_system(),
                                                                    folder / "checkpoints", last);
                                 }});
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDisk) throw;
    ErrorFields fields = error.fields();
    fields.what = "the run folder cannot be written: " + fields.what;
    fields.hint = "make room or permit writing there, or choose another folder: --run DIR";
    throw Error(std::move(fields));
  }
}

}  // namespace longhaul::run
