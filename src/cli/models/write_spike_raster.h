// `sample --spike-raster FILE`: a picture of the spikes that a model's matrices read, token by token.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/open_model.h"
#include "kernels/spikes/statistics.h"

namespace longhaul::cli {

inline constexpr int64_t kRasterTokens = 24, kRasterChannels = 64;  // the first of them are drawn

// From now on the model's spikes are kept for a picture of the matrices whose names contain `part`. Refuses
// (kUsage) a model without spikes and a part that no matrix's name contains.
std::shared_ptr<kernels::SpikeStatistics> keep_spikes(const checkpoint::OpenModel& model,
                                                      const std::string& part);
// tokens: the texts of what the model read, in order.
void write_spike_raster(const kernels::SpikeStatistics& statistics, const std::string& title,
                        const std::vector<std::string>& tokens, const std::string& file);

}  // namespace longhaul::cli
