// Recipe: all settings of a run as one plain tree. options_of(recipe) lists every option bound to its field.
#pragma once

#include <string>

#include "recipe/architecture/model_config.h"
#include "recipe/options/option.h"
#include "recipe/sections/data_options.h"
#include "recipe/sections/generate_options.h"
#include "recipe/sections/guard_options.h"
#include "recipe/sections/observe_options.h"
#include "recipe/sections/optim_options.h"
#include "recipe/sections/outside_options.h"
#include "recipe/sections/parallel_options.h"
#include "recipe/sections/recall_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::recipe {

// Newest version of the file format that is read; this version is written.
inline constexpr int64_t kRecipeVersion = 1;

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
  OutsideOptions outside;  // of tasks, added by add_outside_options()
  bool operator==(const Recipe&) const = default;
};

OptionSet options_of(Recipe& recipe);  // in the order of the reference page; points into `recipe`

}  // namespace longhaul::recipe
