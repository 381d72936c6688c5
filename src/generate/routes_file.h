// A file of routes: the experts to which a model sent the tokens of some sequences
// (model/experts/routes.h), together with these tokens. `sample` and `score` write it, and `score` replays
// it; training on a rollout reads it here. docs/formats/routes.md describes its contents.
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

// The tokens of one sequence that a model read, and their routes: tensors on the CPU.
struct RoutedSequence {
  std::vector<int64_t> ids;
  model::Routes routes;
};

// about: further information for readers, in the file's metadata ("checkpoint", "step").
void write_routes(const std::filesystem::path& path, std::span<const RoutedSequence> sequences,
                  const recipe::ModelConfig& config, const std::map<std::string, std::string>& about);

// Reads the routes of a model with the same layers with routers, experts and experts per token as this one.
// kData errors: the file does not exist, has no routes, or those of another model; lists that do not fit
// each other; experts that do not exist, or occur twice for a token.
std::vector<RoutedSequence> read_routes(const std::filesystem::path& path, const recipe::ModelConfig& config);

// Throws kUsage for a model without experts, which has no routes; `option` is the option that asks for
// them.
void require_routers(const recipe::ModelConfig& config, const std::string& option);

}  // namespace longhaul::generate
