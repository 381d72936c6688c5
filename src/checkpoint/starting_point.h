// StartingPoint: trained weights that a new run begins with (`train RECIPE --from DIR|CKPT`): a public folder or a checkpoint. The run's own model
// must have the same tensors, or have experts where it is dense (upcycling.h); optimizer, step and data begin anew. Reading may happen from several ranks at once.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/disk/writers.h"
#include "checkpoint/state.h"
#include "data/tokenizer/tokenizer.h"
#include "recipe/load.h"

namespace longhaul::checkpoint {

// Of the environment of a run's checkpoints: where its weights came from, whatever is there of that by now.
inline constexpr const char* kOriginKeys[] = {"imported_family", "imported_layout", "started_from"};

class StartingPoint {
 public:
  // Of a checkpoint only the files of weights are looked at, and verify() reads them.
  static std::shared_ptr<const StartingPoint> open(const std::filesystem::path& path);
  virtual ~StartingPoint() = default;

  const std::filesystem::path& path() const { return path_; }
  const recipe::ModelConfig& model() const { return model_; }
  const std::filesystem::path& tokenizer() const { return tokenizer_; }  // its tokenizer.json; empty: none
  const std::filesystem::path& beside() const { return beside_; }        // what export writes again lies there
  const nlohmann::json& origin() const { return origin_; }               // for the environment of the run's checkpoints

  // [model], data.tokenizer and its tokens' roles as a recipe's first words, which the recipe itself wins over.
  recipe::FirstWords first_words() const;
  // kUsage when the recipe's model cannot begin with these weights; a warning where it has the same tensors but would compute something else with
  // them. A line to be told to whoever waits, where they are not simply copied.
  std::string require_fitting(const recipe::LoadedRecipe& recipe) const;
  // Every byte of the weights, by all ranks together: a collective call. kCheckpoint: a file is damaged.
  virtual void verify(const Writers&) const {}
  void read(const std::vector<StateEntry>& state, const recipe::LoadedRecipe& recipe) const;  // the weights among them

 protected:
  virtual Tensor read(const std::string& logical, const layout::Rectangle& box) const = 0;
  void require_same_tensors(const recipe::LoadedRecipe& recipe, const recipe::ModelConfig& model) const;

  std::filesystem::path path_, tokenizer_, beside_;
  data::TokenRoles roles_;  // of the tokenizer's tokens
  recipe::ModelConfig model_;
  nlohmann::json origin_ = nlohmann::json::object();
};

// [model] and data.tokenizer of the run in this folder, as its newest checkpoint says: what the run began with is no longer needed. None:
// there is no checkpoint that can be used.
std::optional<recipe::FirstWords> words_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::checkpoint
