// import_model: converts a public folder (published_model.h) into a checkpoint in a folder of its own,
// tensor by tensor:
//
//   OUT/checkpoints/step-000000000.g1/   the weights, in the dtypes that they had
//   OUT/recipe.toml                      a recipe whose [model] describes the public model
//   OUT/tokenizer.json                   if the public folder has one
//   OUT/published/                       the files that accompanied the weights, which export writes again
//
// Peak memory is about two tensors until the forward check, which needs the whole model and is skipped
// where it does not fit.
// OUT appears when everything is done and checked, or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipe/architecture/model_config.h"

namespace longhaul::checkpoint {

struct ForwardCheck {
  int64_t tokens = 0;
  double mean_loss = 0;    // of predicting the next token of random tokens: near log(vocabulary), or above
  double largest = 0;      // |logit|
  std::string left_out{};  // why the check was skipped; empty: it was made
};

struct ImportReport {
  recipe::ModelConfig model;
  std::string title;  // of the family
  int64_t parameters = 0, logical_tensors = 0, bytes = 0;
  size_t mapped = 0;  // public tensors
  std::vector<std::string> ignored_tensors, ignored_fields, carried;
  std::string dtype, tokenizer;  // tokenizer: a description
  ForwardCheck check;
};

// progress: is called with the bytes written so far.
ImportReport import_model(const std::filesystem::path& from, const std::filesystem::path& out,
                          const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace longhaul::checkpoint
