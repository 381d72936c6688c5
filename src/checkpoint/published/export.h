// export_model: a checkpoint into a public folder: config.json, model.safetensors (or files of at most about 5 GB with an index), tokenizer and
// whatever was carried along when the model was imported. Memory is bounded by about two tensors. OUT appears whole or not at all.
//
// Tensors keep the dtype that the checkpoint has (of an imported model that of its files, so that import → export gives the same bytes;
// of a trained one fp32) unless another one is asked for. What the family publishes in fp32 beside bf16 (MiniMax's router) stays so.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::checkpoint {

struct ExportReport {
  std::string family, title, architecture;
  std::string loaded_by;  // which program has a model for these files
  size_t tensors = 0, files = 0;
  int64_t bytes = 0, step = 0;
  std::vector<std::string> carried;
};

// `family`: one of recipe::family_names(); empty: the model's own. A model of no family (model.family = longhaul) is written as the first one whose files can
// hold it; kUsage when none can, or the one that is asked for cannot. Of a model that was trained here the files say with which token a text begins,
// which end it, and the context that it was trained with.
ExportReport export_model(const std::filesystem::path& checkpoint, const std::filesystem::path& out, std::optional<ScalarType> dtype,
                          const std::function<void(int64_t done, int64_t total)>& progress = {}, const std::string& family = "");

}  // namespace longhaul::checkpoint
