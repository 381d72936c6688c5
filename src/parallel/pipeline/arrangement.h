// Arrangement: how one model and its tokens are dealt out to the ranks of a run. The functions below check,
// before anything is made, that the sizes multiply to the number of ranks and that the model can be dealt out
// so. They throw kUsage errors that say what would work.
#pragma once

#include "layout/mesh.h"
#include "recipe/architecture/model_config.h"
#include "recipe/sections/outer_options.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

struct Arrangement {
  layout::Mesh mesh;  // of one worker
  recipe::ContextOptions context{};
  recipe::PipelineOptions pipeline{};
  int64_t zero = 0;  // parallel.zero
  recipe::ExpertOptions experts{};
  bool elastic = false;       // train.elastic
  int64_t tensor_chunks = 1;  // parallel.tp_chunks
  // of an outer loop: each worker is a run of consecutive ranks with a mesh of its own
  int64_t workers = 1;
  int64_t world() const { return workers * mesh.world(); }
};
Arrangement arrangement_of(const recipe::ModelConfig& model, const recipe::ParallelOptions& options,
                           int64_t world);
// How many workers of an outer loop these ranks form (kUsage where they cannot); 1 without an outer loop.
int64_t workers_of(const recipe::OuterOptions& outer, const recipe::ParallelOptions& options, int64_t world);

// Checks that heads and experts divide evenly, every stage has a layer, and the method of context attention
// can share the key heads, and that of linear layers their heads, and that layers do not need pieces of a
// striped row.
void require_possible(const recipe::ModelConfig& model, const Arrangement& arrangement);

}  // namespace longhaul::parallel
