// load(): file (or text) + presets + overrides → a Recipe and the origin of every value. Later sources
// override earlier ones: defaults, the preset that model.preset names, the file's `base` (and its base), the
// file, key=value arguments. Everything that is not understood is an Error with exit code 64 that names
// file:line:column, the nearest known key and what is allowed; but keys of earlier versions
// (options/retired.h) are ignored with a warning. Impossible combinations are refused too (check.h). No input
// can crash it: size and depth are limited.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace longhaul::recipe {

struct Origin {
  enum class Kind { kDefault, kPreset, kFile, kCommandLine };
  Kind kind = Kind::kDefault;
  std::string detail;        // preset name; "file:line"
  std::string earlier;       // For a value from a run directory's recipe.toml: the origin noted there.
  std::string text() const;  // "default", "preset first-run", "recipes/first-run.toml:12", "command line"
};

struct LoadedRecipe {
  Recipe recipe;
  std::string source;                     // the file, or "" for defaults
  std::map<std::string, Origin> origins;  // for every option that is not a default, by dotted name
  const Origin& origin(const std::string& key) const;
};

// FirstWords: values that precede all sources of a recipe, even presets: those of `keys` in `recipe`.
struct FirstWords {
  Recipe recipe{};
  std::vector<std::string> keys{};
  std::string origin;  // where they come from
};

// `path`: a file, or the name of a recipe that comes with the program ("first-run", "minimax/1-pretrain"),
// which is looked for beside the program when there is no such file.
LoadedRecipe load(const std::filesystem::path& path, const std::vector<std::string>& overrides = {},
                  const FirstWords* first = nullptr);
// Reads `text` as if it were a file of that name. `folder`: where a relative `base` is looked up.
LoadedRecipe load_text(std::string_view text, const std::string& name,
                       const std::vector<std::string>& overrides = {},
                       const std::filesystem::path& folder = ".");
LoadedRecipe load_defaults(const std::vector<std::string>& overrides = {});  // no file

inline constexpr int64_t kRecipeSizeLimitBytes = 1 << 20;

}  // namespace longhaul::recipe
