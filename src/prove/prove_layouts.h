// Layouts that `prove` tries: the ranks, and the methods by which they share the work.
//
//   proof_layouts   The usual ones, each method once, and the recipe's own.
//   all_layouts     Every mesh (prove_covering.h).
#pragma once

#include <string>
#include <vector>

#include "parallel/pipeline/arrangement.h"
#include "recipe/recipe.h"

namespace longhaul::prove {

struct ProofMistake;

struct ProofLayout {
  std::string name;  // "tp2-cp2-ring"; unnamed choices have their default
  recipe::ParallelOptions
      // workers: islands that all see the same sequences and average their weights after every step, as local
      // SGD does
      parallel{};
  bool packed = true;  // true: a row packs documents of any length; false: it is one document
  recipe::Recompute recompute = recipe::Recompute::kNone;
  int64_t recompute_layers = 0;                      // of each stage so many, the first ones; 0: all
  recipe::Offload offload = recipe::Offload::kNone;  // where activations are between the passes
  const ProofMistake* mistake = nullptr;  // a mistake planted in the ranks, in fp64 only or in bf16 only
  bool processes = false;                 // true: its ranks are processes; false: threads
  // train.elastic: compared bit for bit with an elastic run of one process
  bool elastic = false;
  bool weighted = false;  // true: every label weighs something else in the loss, some nothing
  // true: some tokens have rows from outside, which a projector of drawn features makes and learns to make
  bool embedded = false;
};
ProofLayout proof_layout(recipe::ParallelOptions parallel, bool packed = true,
                         recipe::Recompute recompute = recipe::Recompute::kNone,
                         recipe::Offload offload = recipe::Offload::kNone,
                         int64_t recompute_layers = 0);  // named after its choices

parallel::Arrangement arrangement_of(const recipe::ModelConfig& model, const ProofLayout& layout);

std::vector<ProofLayout> proof_layouts(const ProofLayout& own);
// The layout of [parallel] and [train], with the workers of an outer loop where the recipe gives the number
// of ranks.
ProofLayout own_layout(const recipe::Recipe& recipe);
// Layouts with train.elastic on at most `ranks` ranks: all of them replicas, which are the only thing that
// may change in such a run.
std::vector<ProofLayout> elastic_layouts(int64_t ranks);
// Layouts whose loss is made of single tokens' log-probabilities.
std::vector<ProofLayout> weighted_layouts();
// Layouts in which rows from outside stand in the place of some of the embedding's
// (model/outside/embedded_rows.h).
std::vector<ProofLayout> embedded_layouts();
// A few layouts of at most `ranks` processes: one for each kind of communication.
std::vector<ProofLayout> process_layouts(const recipe::ModelConfig& model, int64_t ranks);

}  // namespace longhaul::prove
