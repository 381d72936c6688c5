// The modules of mixers: the upper floor's half of the list in recipe/mixers.h. A module is made from the
// config and the number of its layer over the tensors that its entry lists, and sizes itself by what the
// ParameterSet holds.
#pragma once

#include <memory>

#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

std::unique_ptr<SequenceMixer> make_mixer(recipe::Mixer mixer, const recipe::ModelConfig& config,
                                          const BlockPlace& place, ParameterSet& parameters);
// Null: kNone.
std::unique_ptr<ChannelMixer> make_channel_mixer(recipe::ChannelMixer mixer,
                                                 const recipe::ModelConfig& config, const BlockPlace& place,
                                                 ParameterSet& parameters);

}  // namespace longhaul::model
