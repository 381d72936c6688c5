// Layouts that `prove` tries: which ranks there are, and by what methods they work together.
//
//   proof_layouts   the usual ones, each method once, and the recipe's own
//   all_layouts     every mesh (prove_covering.h)
#pragma once

#include <string>
#include <vector>

#include "parallel/pipeline/arrangement.h"
#include "recipe/recipe.h"

namespace longhaul::prove {

struct ProofMistake;

struct ProofLayout {
  std::string name;                    // "tp2-cp2-ring"; what is not said is the default
  recipe::ParallelOptions parallel{};  // workers: islands that all see the same and take their mean behind every step, as local SGD does
  bool packed = true;                  // documents of any length in a row; else one
  recipe::Recompute recompute = recipe::Recompute::kNone;
  bool offload = false;                   // what layers keep lies in a file between the passes
  const ProofMistake* mistake = nullptr;  // planted in the ranks, and in fp64 alone or in bf16 alone
  bool processes = false;                 // its ranks are processes; else threads
  bool elastic = false;                   // train.elastic: compared with an elastic run of one process, to the bit
};
ProofLayout proof_layout(recipe::ParallelOptions parallel, bool packed = true, recipe::Recompute recompute = recipe::Recompute::kNone,
                         bool offload = false);  // named after what it has

parallel::Arrangement arrangement_of(const recipe::ModelConfig& model, const ProofLayout& layout);

std::vector<ProofLayout> proof_layouts(const ProofLayout& own);
// That of [parallel] and [train]; with those of an outer loop's workers, where the recipe says how many ranks there are.
ProofLayout own_layout(const recipe::Recipe& recipe);
// Of train.elastic, on at most so many ranks: replicas, which are all that may change in such a run.
std::vector<ProofLayout> elastic_layouts(int64_t ranks);
// A few whose ranks are processes: one of each kind of communication, of at most so many ranks.
std::vector<ProofLayout> process_layouts(const recipe::ModelConfig& model, int64_t ranks);

}  // namespace longhaul::prove
