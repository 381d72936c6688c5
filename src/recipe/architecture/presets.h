// Presets: named model shapes from presets/*/*.toml, compiled into the program. A preset sets [model] only.
#pragma once

#include <string_view>
#include <vector>

#include "recipe/architecture/model_config.h"

namespace longhaul::recipe {

struct Preset {
  std::string_view name;  // file name without .toml, unique over the folders
  std::string_view path;  // "presets/models/llama-3-8b.toml"
  std::string_view text;  // the TOML
};

const std::vector<Preset>& presets();              // sorted by name
const Preset* find_preset(std::string_view name);  // nullptr when there is none
ModelConfig preset_model(std::string_view name);   // throws kUsage with the list of names when there is none

}  // namespace longhaul::recipe
