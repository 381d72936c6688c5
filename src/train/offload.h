// Offloading of activations (train.offload): where the activations that layers keep are stored between the
// forward and the backward pass.
#pragma once

#include <filesystem>
#include <memory>

#include "kernels/file_offload.h"
#include "model/parameter.h"
#include "plan/memory/memory.h"
#include "recipe/sections/train_options.h"

namespace longhaul::train {

// Returns null where activations stay in memory. `cache`: the folder of the file when the recipe names none.
// Weights always stay in memory. The parameters must be allocated.
std::unique_ptr<kernels::FileOffload> make_offload(const recipe::TrainOptions& train,
                                                   const std::filesystem::path& cache,
                                                   const model::ParameterSet& parameters,
                                                   int64_t least_bytes = plan::kLeastOffloaded);

}  // namespace longhaul::train
