#include "cli/models/write_routes.h"

#include "base/log.h"
#include "base/text/text.h"

namespace longhaul::cli {

void write_routes_of(const checkpoint::OpenModel& model, std::span<const generate::RoutedSequence> sequences,
                     const std::string& path) {
  const recipe::ModelConfig& config = model.recipe.recipe.model;
  generate::write_routes(path, sequences, config,
                         {{"checkpoint", model.folder.string()}, {"step", std::to_string(model.step)}});
  int64_t tokens = 0;
  for (const generate::RoutedSequence& each : sequences) tokens += std::ssize(each.ids);
  log_info("routes of {} in {}, {} of {} experts each in {}, written to {}", counted(tokens, "token"),
           counted(std::ssize(sequences), "sequence"), config.experts_per_token, config.experts,
           counted(std::ssize(model::blocks_with_routers(config)), "layer"), path);
}

}  // namespace longhaul::cli
