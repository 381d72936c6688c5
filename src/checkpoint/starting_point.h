// StartingPoint: trained weights from which a new run begins (`train RECIPE --from DIR|CKPT`): a public
// folder or a checkpoint. The run's own model must have the same tensors, or have experts where the trained
// one is dense (upcycling.h), or other mixers where a conversion was asked for (conversion_weights.h), or
// more rows of the vocabulary.
// Optimizer, step and data begin anew. Several ranks may read at the same time.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/disk/writers.h"
#include "checkpoint/published/conversion_weights.h"
#include "checkpoint/published/upcycling.h"
#include "checkpoint/state.h"
#include "data/tokenizer/tokenizer.h"
#include "recipe/load.h"

namespace longhaul::checkpoint {

// Keys in the environment of a run's checkpoints that say where its weights came from. The place they name
// may have changed or gone since.
inline constexpr const char* kOriginKeys[] = {"imported_family", "imported_layout", "started_from"};

class StartingPoint {
 public:
  // If `path` is a checkpoint, only its files of weights are looked at; verify() reads them.
  // `rules` (recipe/architecture/conversion.h): the layers become others; empty: they stay. kUsage: rules
  // that are not understood, or a model that cannot be converted by them.
  static std::shared_ptr<const StartingPoint> open(const std::filesystem::path& path,
                                                   const std::string& rules = "");
  virtual ~StartingPoint() = default;

  const std::filesystem::path& path() const { return path_; }
  const recipe::ModelConfig& model() const { return model_; }
  const std::filesystem::path& tokenizer() const { return tokenizer_; }  // its tokenizer.json; empty: none
  // The folder of the published model, or the run folder of the checkpoint.
  const std::filesystem::path& home() const { return home_; }
  // The folder with the files that export writes again.
  const std::filesystem::path& beside() const { return beside_; }
  const nlohmann::json& origin() const { return origin_; }  // for the environment of the run's checkpoints

  // [model], data.tokenizer and the roles of its tokens, as defaults that the recipe overrides.
  recipe::FirstWords first_words() const;
  // kUsage when the recipe's model cannot begin with these weights. Logs a warning when it has the same
  // tensors but would compute something else with them. Returns a line for the user where the weights are
  // not simply copied.
  std::string require_fitting(const recipe::LoadedRecipe& recipe) const;
  // Verifies every byte of the weights, all ranks together: a collective call. kCheckpoint: a file is
  // damaged.
  virtual void verify(const Writers&) const {}
  // Nothing is read any more: what lies there may be removed (storage/lease.h).
  virtual void finish_reading() const {}
  // Reads the weights among `state`.
  void read(const std::vector<StateEntry>& state, const recipe::LoadedRecipe& recipe) const;

 protected:
  virtual Tensor read(const std::string& logical, const layout::Rectangle& box) const = 0;
  void read_converted(const StateEntry& entry, const ConversionWeights& weights) const;
  Tensor read_copies(const Upcycling::Source& source) const;
  bool grows_vocabulary(const recipe::ModelConfig& model) const;
  // Rows of the vocabulary that the trained model lacks get the mean of those that it has.
  void read_growing(const StateEntry& entry) const;

  void require_fitting_adapters(const recipe::AdapterOptions& lora) const;
  void require_same_tensors(const recipe::LoadedRecipe& recipe, const recipe::ModelConfig& model) const;

  std::filesystem::path path_, home_, tokenizer_, beside_;
  data::TokenRoles roles_;  // of the tokenizer's tokens
  recipe::ModelConfig model_;
  nlohmann::json origin_ = nlohmann::json::object();
  std::map<std::string, layout::Shape> shapes_;   // of its tensors: some are read whole
  std::optional<recipe::ModelConfig> converted_;  // what its model becomes
};

// [model] and data.tokenizer of the run in this folder, as its newest checkpoint says; the weights that the
// run began with are no longer needed. None: there is no checkpoint that can be used.
std::optional<recipe::FirstWords> words_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::checkpoint
