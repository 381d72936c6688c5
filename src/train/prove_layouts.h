// Layouts that `prove` tries: which ranks there are, and by what methods they work together.
//
//   proof_layouts   the usual ones, each method once, and the recipe's own
//   all_layouts     every mesh of 1, 2, 4 … ranks, each once; what else can be chosen (context method, schedule, packing, …) is dealt out to
//                   them so that any two choices of two keys meet in some layout, if they can: a pairwise covering array; and process_layouts
//
// A mesh that the model cannot be dealt out to stands in the list with the reason, so nothing is left out silently.
#pragma once

#include <string>
#include <vector>

#include "parallel/arrangement.h"
#include "recipe/recipe.h"

namespace longhaul::train {

struct ProofMistake;

struct ProofLayout {
  std::string name;                    // "tp2-cp2-ring"; what is not said is the default
  recipe::ParallelOptions parallel{};  // workers: islands that all see the same and take their mean behind every step, as local SGD does
  bool packed = true;                  // documents of any length in a row; else one
  recipe::Recompute recompute = recipe::Recompute::kNone;
  bool offload = false;                   // what layers keep lies in a file between the passes
  const ProofMistake* mistake = nullptr;  // planted in the ranks, and in fp64 alone
  bool processes = false;                 // its ranks are processes; else threads
  bool elastic = false;                   // train.elastic: compared with an elastic run of one process, to the bit
};
ProofLayout proof_layout(recipe::ParallelOptions parallel, bool packed = true, recipe::Recompute recompute = recipe::Recompute::kNone,
                         bool offload = false);  // named after what it has

parallel::Arrangement arrangement_of(const ProofLayout& layout);

std::vector<ProofLayout> proof_layouts(const recipe::ParallelOptions& own);
// A few whose ranks are processes: one of each kind of communication, of at most so many ranks.
std::vector<ProofLayout> process_layouts(const recipe::ModelConfig& model, int64_t ranks);
// Of worlds of 1, 2, 4, … up to `ranks`, of the model made small for each.
std::vector<ProofLayout> all_layouts(const recipe::ModelConfig& model, int64_t ranks);

// What of the pairs of choices no layout has; the reason is that none can. Names "parallel.schedule=dualpipe with packed=false".
std::vector<std::string> pairs_left_out(const std::vector<ProofLayout>& layouts);

}  // namespace longhaul::train
