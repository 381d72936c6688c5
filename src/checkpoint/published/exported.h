// The parts that both exports share (export.h, export_gguf.h): the family whose names a model's tensors get,
// public tensors read from a checkpoint one at a time, and the tokenizer of a run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/tokenizer/tokenizer.h"
#include "layout/parameters.h"
#include "model/families/families.h"
#include "recipe/recipe.h"
#include "storage/catalog.h"
#include "tensor/tensor.h"

namespace longhaul::checkpoint {

// The model with the family that is asked for, else its own, else the first whose files can hold it. kUsage
// when none can, or when the requested one cannot.
recipe::ModelConfig in_its_family(recipe::ModelConfig config, const std::string& asked);

// kUsage, with the command that merges them: the model has adapters, for which other programs' files have no
// place.
void require_without_adapters(const recipe::ModelConfig& config, const std::filesystem::path& checkpoint);

// The whole tensor; needs the memory of two of them at most.
Tensor read_public(const storage::Checkpoint& checkpoint, const model::PublicTensor& tensor,
                   ScalarType dtype);

// The tokenizer of a run; none: it has none, or its model reads other ids (train.task = recall).
std::optional<data::Tokenizer> run_tokenizer(const std::filesystem::path& run, const recipe::Recipe& recipe);

}  // namespace longhaul::checkpoint
