// export_model: writes a checkpoint as a public folder: config.json, model.safetensors (or several files of
// at most about 5 GB with an index), the tokenizer, and the files that were kept when the model was
// imported. Peak memory is about two tensors. OUT appears complete or not at all.
//
// Unless another dtype is asked for, tensors keep the dtype that the checkpoint has: for an imported model
// that of its original files, so that import → export gives the same bytes; for a trained model fp32.
// Tensors that the family publishes in fp32 next to bf16 weights (MiniMax's router) stay fp32.
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
  std::string loaded_by;  // the program that can load these files
  size_t tensors = 0, files = 0;
  int64_t bytes = 0, step = 0;
  std::vector<std::string> carried;
};

// `family`: one of recipe::family_names(); empty: the model's own. A model without a family (model.family =
// longhaul) is written as the first family whose files can hold it. kUsage when no family can, or when the
// requested one cannot. For a model that was trained here, the files name the token that begins a text, the
// tokens that end it, and the context length that it was trained with.
ExportReport export_model(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                          std::optional<ScalarType> dtype,
                          const std::function<void(int64_t done, int64_t total)>& progress = {},
                          const std::string& family = "");

}  // namespace longhaul::checkpoint
