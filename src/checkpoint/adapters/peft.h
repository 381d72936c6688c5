// Adapters as PEFT publishes them: a folder with adapter_config.json and adapter_model.safetensors, whose
// tensors are named after the modules of the public model they stand beside:
//
//   base_model.model.MODULE.lora_A.weight [r, in], .lora_B.weight [out, r], .lora_magnitude_vector [out]
//   (DoRA)
//
// import_adapter puts them beside the weights of a checkpoint of ours; export_adapter writes those of a run.
// Both give the same logits here and there. A folder is refused (kData, with names) for anything that is not
// computed here: other kinds of adapters, ranks that differ, biases, modules or shapes that the model does
// not have, modules that hold several of our tensors, or only a part of one. OUT appears complete or not at
// all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "recipe/architecture/adapters.h"

namespace longhaul::checkpoint {

struct AdapterReport {
  recipe::AdapterOptions lora;
  int64_t adapters = 0, values = 0;
  std::vector<std::string> modules{};  // "q_proj", or whole names
};

// base: a checkpoint of the model without adapters, as `import` makes it. out: a run folder of the model with
// them.
AdapterReport import_adapter(const std::filesystem::path& base, const std::filesystem::path& adapter,
                             const std::filesystem::path& out,
                             const std::function<void(int64_t done, int64_t total)>& progress = {});
AdapterReport export_adapter(const std::filesystem::path& run, const std::filesystem::path& out);

}  // namespace longhaul::checkpoint
