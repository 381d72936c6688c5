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
// Routers are drawn as in a fresh model. Where the weights of a token's experts are normalised, they sum to
// model.router_scale, so each slice would count scale / G of what it counted in the dense model, and S shared
// experts (G = 1, each a copy) as much again; to undo this, down is multiplied by G / (scale + S). With no
// token dropped, the model's logits are therefore those of the dense model.
//
// Softmax scores that are not normalised are about 1 / N for each of N experts while the router is fresh,
// and a token's k experts with S shared ones count S + scale · k / N: each of gate, up and down is multiplied
// by the inverse cube root of that number (SpikingBrain, docs/sources/spikingbrain.md §2.3: 0.98 for S = k =
// 1 and N = 16). That is approximate, because SiLU is not homogeneous and routers are not quite even: the
// output of a layer changes by less than 3 %.
//
// All other tensors are the dense model's; layers that stay dense (model.dense_layers) keep theirs.
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
  static std::optional<Upcycling> of(const recipe::ModelConfig& dense, const recipe::LoadedRecipe& recipe,
                                     const std::string& from);

  // The dense model as the recipe would describe it. Everything that does not concern experts must equal
  // `dense`.
  recipe::ModelConfig without_experts() const;
  std::string text() const;  // one line that says which model is initialised from which

  // The tensor and box that a tensor's weights, or a box of them, are copied from.
  struct Source {
    std::string name;
    layout::Rectangle box;
    double factor = 1;
    // Shared experts are one channel mixer of their total width: the tensor is repeated so often along this
    // dimension, and `box` is one of the repeated tensor.
    int64_t copies = 1;
    size_t copied_dimension = 0;
  };
  Source source_of(const StateEntry& entry) const;
  // Returns nothing for a tensor that is not a router or its bias. Otherwise the router's box in fp64,
  // undefined when it keeps its drawn values.
  std::optional<Tensor> router_of(const StateEntry& entry) const;

 private:
  Upcycling(const recipe::ModelConfig& dense, const recipe::Recipe& recipe);
  double down_factor() const;    // normalised weights
  double matrix_factor() const;  // weights that are not

  recipe::ModelConfig dense_, model_;
  uint64_t seed_;
  int64_t slices_;                                        // G
  std::map<std::string, layout::ParameterSpec> routers_;  // by name
};

}  // namespace longhaul::checkpoint
