// Families: the public naming schemes under which a model's weights are published. Public checkpoints of a
// family hold exactly one kind of model; another kind could be trained but never exported, so model.family
// refuses it. Each family has one entry, listed in families.cpp; src/model/families reads and writes its
// files. "longhaul" can hold every model. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/architecture/model_config.h"
#include "recipe/check.h"

namespace longhaul::recipe {

std::vector<std::string> family_names();
// Adds the reasons why files of model.family cannot hold the model; an unknown family is one.
void check_family(const ModelConfig& model, std::vector<Problem>& out);

}  // namespace longhaul::recipe
