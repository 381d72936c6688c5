// The options that every command has which computes with a trained model.
#pragma once

#include <string>

#include "checkpoint/open_model.h"
#include "cli/command.h"

namespace longhaul::cli {

// --dtype, --experts, --weights and --device, as checkpoint::open_model and device_named take them.
void add_model_options(Command& command, std::string& dtype, std::string& experts, std::string& weights,
                       std::string& device);

// --kv-cache, of commands that read keys and values from a decoding state: "int8" or empty.
void add_cache_option(Command& command, std::string& kv_cache);

// --spikes, --spikes-k and --spikes-coding.
void add_spike_options(Command& command, checkpoint::SpikeRequest& spikes);
// --spikes-texts (calibrate_spikes.h).
void add_spike_texts(Command& command, std::string& file);

}  // namespace longhaul::cli
