// How the inputs of a model's matrices looked as spikes, as `evaluate --spikes` tells it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/spikes/statistics.h"

namespace longhaul::cli {

std::string spikes_text(const kernels::SpikeStatistics& statistics, double k);
nlohmann::ordered_json spikes_json(const kernels::SpikeStatistics& statistics, double k);

}  // namespace longhaul::cli
