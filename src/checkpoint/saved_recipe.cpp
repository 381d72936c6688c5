#include "checkpoint/saved_recipe.h"

#include "recipe/options/toml_reader.h"

namespace longhaul::checkpoint {
namespace {

void refuse_base(const std::string& text, const std::string& where) {
  for (const recipe::TomlEntry& entry : recipe::read_toml(text, where)) {
    if (entry.key != "base") continue;
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the recipe inside the checkpoint builds on another file",
                 .expected = "a recipe that is complete in itself, as Longhaul saves it",
                 .found = entry.is_section ? "[base]" : "base = " + entry.value.described(),
                 .where = fmt::format("{}, recipe, line {}", where, entry.line),
                 .hint = "use a checkpoint from a source you trust: this one was not written by Longhaul"});
  }
}

}  // namespace

recipe::LoadedRecipe saved_recipe(const storage::Checkpoint& checkpoint) {
  const auto& saved = checkpoint.manifest().recipe;
  const std::string where = (checkpoint.folder() / storage::kManifestName).string();
  if (!saved.contains("toml") || !saved["toml"].is_string()) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the checkpoint does not say which model it holds",
                 .expected = "recipe.toml inside its manifest",
                 .where = where});
  }
  const std::string text = saved["toml"].get<std::string>();
  try {
    refuse_base(text, where);
    return recipe::load_text(text, where);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    ErrorFields fields = error.fields();  // nobody typed it
    fields.code = ExitCode::kCheckpoint;
    fields.what = "the recipe inside the checkpoint cannot be used: " + fields.what;
    throw Error(std::move(fields));
  }
}

}  // namespace longhaul::checkpoint
