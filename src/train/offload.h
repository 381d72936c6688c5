// Offloading of activations (train.offload): where the activations that layers keep are stored between the
// forward and the backward pass.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "kernels/saved/host_offload.h"
#include "model/parameter.h"
#include "plan/memory/memory.h"
#include "recipe/sections/train_options.h"
#include "train/task.h"

namespace longhaul::train {

// `share`: train.offload_share. With "auto" the shares are chosen from what the second forward pass takes,
// and the log says them. Fills in what the options leave open: the room in the host's memory.
std::unique_ptr<kernels::HostOffload> make_host_offload(const std::string& share,
                                                        kernels::HostOffloadOptions options);

// Returns null where activations stay in memory. `cache`: the folder of the file when the recipe names none.
// Weights always stay in memory. The parameters must be allocated.
std::unique_ptr<kernels::SavedTensors> make_offload(const recipe::TrainOptions& train,
                                                    const std::filesystem::path& cache,
                                                    const model::ParameterSet& parameters,
                                                    int64_t least_bytes = plan::kLeastOffloaded);

// What train.offload = host did since the last call, for a step's metrics: offload/waited_seconds,
// …moved_bytes, …file_bytes, …stayed_bytes, …host_bytes, and, where the shares are chosen,
// offload/share_layer_0 and so on of all layers of the model. Empty for what is not offloaded there.
std::map<std::string, Metric> offload_metrics(kernels::SavedTensors* offload, int64_t layers);

}  // namespace longhaul::train
