// Upcycling: a model with experts that begins as a trained dense one (Sparse Upcycling, arXiv 2212.05055; granular experts, 2410.07524;
// docs/sources/moe-parallel-folding.md §6). With F the inner width of the dense channel mixers and f of one expert (model.intermediate), f divides F and G = F / f:
//
//   G = 1   every expert is a copy of its layer's dense channel mixer
//   G > 1   expert e is slice e mod G of it: channels [f · (e mod G), …) of gate, up and down. The G experts of one copy have one router row, so the k best
//           experts (G divides k, and of equals the lower comes first) are k / G whole copies
//
// Routers are drawn as in a fresh model. The weights of a token's experts sum to model.router_scale (they must be normalised), which makes each slice
// count scale / G of what it counted: down is multiplied by G / scale. So, with nothing dropped, the model's logits are those of the dense one. All other
// tensors are the dense model's; layers that stay dense (model.dense_layers) keep theirs.
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
  // Nothing where it is none: `dense` has experts, or the recipe's model has none. kUsage where sizes do not fit: the key, expected and found.
  static std::optional<Upcycling> of(const recipe::ModelConfig& dense, const recipe::LoadedRecipe& recipe, const std::string& from);

  // The dense model as the recipe would describe it: whatever is not of experts must be as it is there.
  recipe::ModelConfig without_experts() const;
  std::string text() const;  // what is begun with what, a line

  // Where a tensor's weights, or a box of them, come from.
  struct Source {
    std::string name;
    layout::Rectangle box;
    double factor = 1;
  };
  Source source_of(const StateEntry& entry) const;
  // Nothing for what is not a router or its bias. Else the router's box, in fp64, undefined where it stays as it was drawn.
  std::optional<Tensor> router_of(const StateEntry& entry) const;

 private:
  Upcycling(const recipe::ModelConfig& dense, const recipe::Recipe& recipe);

  recipe::ModelConfig dense_, model_;
  uint64_t seed_;
  int64_t slices_;                                        // G
  std::map<std::string, layout::ParameterSpec> routers_;  // by name
};

}  // namespace longhaul::checkpoint
