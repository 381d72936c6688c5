// Recipe: everything a run is told, as one plain tree. options_of(recipe) lists every option bound to its field.
#pragma once

#include <string>

#include "recipe/data_options.h"
#include "recipe/generate_options.h"
#include "recipe/guard_options.h"
#include "recipe/model_config.h"
#include "recipe/observe_options.h"
#include "recipe/optim_options.h"
#include "recipe/option.h"
#include "recipe/parallel_options.h"
#include "recipe/recall_options.h"
#include "recipe/train_options.h"

namespace longhaul::recipe {

inline constexpr int64_t kRecipeVersion = 1;  // newest version of the file format this program reads; it writes this one

struct Recipe {
  int64_t version = kRecipeVersion;
  std::string description;
  ModelConfig model;
  DataOptions data;
  TrainOptions train;
  RecallOptions recall;
  OptimOptions optim;
  GenerateOptions sample;
  ParallelOptions parallel;
  ObserveOptions observe;
  GuardOptions guard;
  bool operator==(const Recipe&) const = default;
};

OptionSet options_of(Recipe& recipe);  // in the order of the reference page; points into `recipe`

}  // namespace longhaul::recipe
