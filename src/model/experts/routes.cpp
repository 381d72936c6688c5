#include "model/experts/routes.h"

#include <fmt/format.h>

namespace longhaul::model {

std::vector<std::string> blocks_with_routers(const recipe::ModelConfig& config) {
  std::vector<std::string> blocks;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (config.channel_mixer(layer) == recipe::ChannelMixer::kExperts)
      blocks.push_back(fmt::format("layers.{}.experts", layer));
  }
  return blocks;
}

}  // namespace longhaul::model
