// Families: under whose public names a model's weights are published. Public checkpoints of a family hold exactly one kind of model;
// another one could be trained but never exported, so model.family refuses it. One entry a family, listed in families.cpp; how its files
// are read and written is src/model/families. "longhaul" holds every model. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/architecture/model_config.h"
#include "recipe/check.h"

namespace longhaul::recipe {

std::vector<std::string> family_names();
// Why files of model.family cannot hold the model, if they cannot; an unknown family too.
void check_family(const ModelConfig& model, std::vector<Problem>& out);

}  // namespace longhaul::recipe
