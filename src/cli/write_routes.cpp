#include "cli/write_routes.h"

#include "base/log.h"

namespace longhaul::cli {

void write_routes_of(const checkpoint::OpenModel& model, std::span<const generate::RoutedSequence> sequences, const std::string& path) {
  const recipe::ModelConfig& config = model.recipe.recipe.model;
  generate::write_routes(path, sequences, config, {{"checkpoint", model.folder.string()}, {"step", std::to_string(model.step)}});
  int64_t tokens = 0;
  for (const generate::RoutedSequence& each : sequences) tokens += std::ssize(each.ids);
  log_info("routes of {} tokens of {} sequences, {} of {} experts each in {} layers, written to {}", tokens, sequences.size(),
           config.experts_per_token, config.experts, model::blocks_with_routers(config).size(), path);
}

}  // namespace longhaul::cli
