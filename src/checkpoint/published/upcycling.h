// Upcycling: initialises a model with experts from a trained dense model (Sparse Upcycling, arXiv
// 2212.05055; granular experts, 2410.07524; docs/sources/moe-parallel-folding.md §6). With F the inner
// width of the dense channel mixers and f that of one expert (model.intermediate), f divides F and G = F /
// f:
//
//   G = 1   Every expert is a copy of its layer's dense channel mixer.
//   G > 1   Expert e is slice e mod G of the mixer: channels [f · (e mod G), …) of gate, up and down. The G
//           experts of one copy have the same router row, so the k best experts (G divides k, and among
//           equal scores the lower index comes first) are k / G whole copies.
//
// Routers are drawn as in a fresh model. The weights of a token's experts sum to model.router_scale (they
// must be normalised), so each slice would count scale / G of what it counted in the dense model; to undo
// this, down is multiplied by G / scale. With no token dropped, the model's logits are therefore those of
// the dense model. All other tensors are the dense model's; layers that stay dense (model.dense_layers)
// keep theirs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "checkpoint/state.h"
#include "layout/parameters.h"
#include "recipe/load.h"

namespace longhaul::checkpoint {

class Upcycling {
 public:
  // Returns nothing when this is not an upcycling: `dense` has experts, or the recipe's model has none.
  // kUsage when sizes do not fit: the error names the key, expected and found.
  static std::optional<Upcycling> of(const recipe::ModelConfig& dense, const recipe::LoadedRecipe& recipe, const std::string& from);

  // The dense model as the recipe would describe it. Everything that does not concern experts must equal
  // `dense`.
  recipe::ModelConfig without_experts() const;
  std::string text() const;  // one line that says which model is initialised from which

  // The tensor and box that a tensor's weights, or a box of them, are copied from.
  struct Source {
    std::string name;
    layout::Rectangle box;
    double factor = 1;
  };
  Source source_of(const StateEntry& entry) const;
  // Returns nothing for a tensor that is not a router or its bias. Otherwise the router's box in fp64,
  // undefined when it keeps its drawn values.
  std::optional<Tensor> router_of(const StateEntry& entry) const;

 private:
  Upcycling(const recipe::ModelConfig& dense, const recipe::Recipe& recipe);

  recipe::ModelConfig dense_, model_;
  uint64_t seed_;
  int64_t slices_;                                        // G
  std::map<std::string, layout::ParameterSpec> routers_;  // by name
};

}  // namespace longhaul::checkpoint
