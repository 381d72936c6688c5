// A tiny model with its optimizer, and the recipe that makes it, for the tests of checkpoints.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/disk/save.h"
#include "checkpoint/optimizer_state.h"
#include "model/decoder.h"
#include "optim/optimizer.h"
#include "recipe/load.h"
#include "recipe/write.h"
#include "storage/catalog.h"
#include "support/models.h"

namespace longhaul::checkpoint {

inline recipe::LoadedRecipe tiny_recipe(const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"model.layers=1",      "model.hidden=16",      "model.heads=2",
                                     "model.kv_heads=1",    "model.head_dim=8",     "model.vocabulary=300",
                                     "data.vocabulary=300", "model.mixers=softmax", "model.intermediate=16",
                                     "model.rotary_dim=4",  "model.experts=0",      "train.dtype=fp32"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return recipe::load_defaults(overrides);
}

struct TinyTraining {
  explicit TinyTraining(const std::vector<std::string>& more = {}) : recipe(tiny_recipe(more)) {}

  recipe::LoadedRecipe recipe;
  model::Decoder decoder = testing::filled_decoder(recipe.recipe.model, "fp32");
  std::unique_ptr<optim::Optimizer> optimizer =
      optim::make_optimizer(recipe.recipe.optim, decoder.parameters(), Precision::named("fp32"));

  OptimizerState optimizer_state{*optimizer};

  std::vector<StateProvider*> state() { return {&optimizer_state}; }
  std::vector<StateEntry> tensors() { return tensors_of(state()); }
  void add_to_weights(double value) {
    for (auto& entry : tensors()) entry.view.add_(value);
  }
  storage::Manifest manifest() const {
    storage::Manifest manifest{.run_id = "tiny"};
    manifest.recipe = {{"toml", recipe::to_toml(recipe)}};
    return manifest;
  }
};

}  // namespace longhaul::checkpoint
