// AdaptedRun: the newest checkpoint of a run whose model has adapters (layout/adapters.h), read tensor by
// tensor. merge_adapters adds them into the weights they stand beside: OUT is a run folder with a checkpoint
// of the model without adapters, which everything else reads, and appears complete or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "layout/parameters.h"
#include "recipe/load.h"
#include "storage/catalog.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

class AdaptedRun {
 public:
  // kUsage: the model has no adapters. Every byte of the weights is verified.
  static AdaptedRun open(const std::filesystem::path& path);

  const storage::Checkpoint& checkpoint() const { return checkpoint_; }
  const recipe::LoadedRecipe& recipe() const { return recipe_; }
  recipe::ModelConfig base() const;  // its model without the adapters
  std::filesystem::path run_folder() const;

  bool adapted(const layout::ParameterSpec& spec) const;  // a tensor of base()
  Tensor read(const std::string& tensor) const;           // in its dtype
  // A weight with its adapter added, in fp32 (fp64 where it is stored so).
  Tensor merged(const layout::ParameterSpec& spec) const;
  // DoRA: the length of each row that was trained, [out].
  Tensor magnitude(const layout::ParameterSpec& spec) const;

 private:
  AdaptedRun(storage::Checkpoint checkpoint, recipe::LoadedRecipe recipe)
      : checkpoint_(std::move(checkpoint)), recipe_(std::move(recipe)) {}
  storage::Checkpoint checkpoint_;
  recipe::LoadedRecipe recipe_;
};

// The files of a run folder that stand beside the checkpoints and belong to the model: tokenizer, chat
// template, the files of an import.
void carry_beside(storage::FileSystem& files, const std::filesystem::path& run,
                  const std::filesystem::path& to);

struct MergeReport {
  int64_t step = 0, adapters = 0, tensors = 0, bytes = 0;
};
// dtype: of the weights that had an adapter (default: as they were).
MergeReport merge_adapters(const std::filesystem::path& run, const std::filesystem::path& out,
                           std::optional<ScalarType> dtype,
                           const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace longhaul::checkpoint
