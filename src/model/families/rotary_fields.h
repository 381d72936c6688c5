// Rotary positions in config.json: rope_parameters of transformers 5, rope_theta and rope_scaling of earlier
// ones. For src/model/families.
#pragma once

#include "model/families/config_reader.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

// Types default, linear and llama3; base_otherwise: where no field says one. The whole head is rotated unless
// a family says otherwise.
void read_rotary(ConfigReader& reader, recipe::ModelConfig& config, double base_otherwise);
// Both forms: earlier versions take no notice of rope_parameters and would fall back to their default
// silently.
void write_rotary(const recipe::ModelConfig& config, nlohmann::ordered_json& json);

}  // namespace longhaul::model
