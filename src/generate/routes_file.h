// A file of routes: which experts a model sent the tokens of some sequences to (model/experts/routes.h), with those tokens. `sample` and `score` write it, `score`
// replays it; whoever trains on a rollout reads it here. What is in it: docs/formats/routes.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/experts/routes.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::generate {

// The tokens that a model read of one sequence, and where it sent them: tensors on the CPU.
struct RoutedSequence {
  std::vector<int64_t> ids;
  model::Routes routes;
};

// about: what else readers may want to know, in the file's metadata ("checkpoint", "step").
void write_routes(const std::filesystem::path& path, std::span<const RoutedSequence> sequences, const recipe::ModelConfig& config,
                  const std::map<std::string, std::string>& about);

// Of a model like this one: the same layers with routers, experts and experts a token. kData errors: no such file, no routes, or another model's; lists that do not
// fit each other; experts that there are not, or twice for a token.
std::vector<RoutedSequence> read_routes(const std::filesystem::path& path, const recipe::ModelConfig& config);

// A model without experts has no routes: kUsage, for the option that asks for them.
void require_routers(const recipe::ModelConfig& config, const std::string& option);

}  // namespace longhaul::generate
