// What train.offload asks for: where the activations that layers keep lie between the passes.
#pragma once

#include <filesystem>
#include <memory>

#include "kernels/file_offload.h"
#include "model/parameter.h"
#include "plan/memory/memory.h"
#include "recipe/sections/train_options.h"

namespace longhaul::train {

// Null: they stay in memory. `cache`: where the file lies when the recipe names no folder. Weights stay; the parameters must be allocated.
std::unique_ptr<kernels::FileOffload> make_offload(const recipe::TrainOptions& train, const std::filesystem::path& cache,
                                                   const model::ParameterSet& parameters, int64_t least_bytes = plan::kLeastOffloaded);

}  // namespace longhaul::train
