// write_weights_folder: a run folder with one checkpoint that holds weights and nothing else, written tensor
// by tensor: what score, sample, evaluate, export and `train --from` take. The caller makes the folder
// (disk/new_folder.h) and puts what belongs beside the weights into it.
//
//   FOLDER/checkpoints/step-000000000.g1/   the weights
//   FOLDER/recipe.toml                      the recipe, whose [model] describes them
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "layout/parameters.h"
#include "recipe/load.h"
#include "storage/file_system.h"
#include "storage/manifest.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

struct WeightsFolder {
  recipe::LoadedRecipe recipe;
  std::vector<layout::ParameterSpec> specs;
  std::function<ScalarType(const std::string& tensor)> dtype_of;
  std::function<Tensor(const std::string& tensor)> read;  // whole and contiguous, of that dtype
  int64_t step = 0;
  storage::Manifest manifest;  // whose origin is told: run_id, environment, data_position

  int64_t bytes() const;
};

// progress: is called with the bytes of each tensor that was written, and with the bytes of all.
void write_weights_folder(storage::FileSystem& files, const std::filesystem::path& folder,
                          const WeightsFolder& weights,
                          const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace longhaul::checkpoint
