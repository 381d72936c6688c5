#include "recipe/architecture/presets.h"

#include <string>

#include "recipe/load.h"

namespace longhaul::recipe {

const Preset* find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

ModelConfig preset_model(std::string_view name) {
  return load_text(fmt::format("[model]\npreset = {}\n", Value(std::string(name)).toml()), "preset")
      .recipe.model;
}

}  // namespace longhaul::recipe
