// Arrangement: how one model and its tokens are dealt out to the ranks of a run, and what is asked of it before anything is made: that the sizes
// multiply to the ranks there are, and that the model can be dealt out so. kUsage errors, each with what would do.
#pragma once

#include "layout/mesh.h"
#include "recipe/model_config.h"
#include "recipe/parallel_options.h"

namespace longhaul::parallel {

struct Arrangement {
  layout::Mesh mesh;
  recipe::ContextOptions context{};
  recipe::PipelineOptions pipeline{};
  int64_t zero = 0;  // parallel.zero
  recipe::ExpertOptions experts{};
  bool elastic = false;       // train.elastic
  int64_t tensor_chunks = 1;  // parallel.tp_chunks
};
Arrangement arrangement_of(const recipe::ParallelOptions& options, int64_t world);

// Heads and experts come out even, every stage has a layer, and the method of context attention can share the key heads.
void require_possible(const recipe::ModelConfig& model, const Arrangement& arrangement);

}  // namespace longhaul::parallel
