// What is asked of a recipe's sizes before anything is made: that they multiply to the ranks there are, and that the model can be dealt out so.
// kUsage errors, each with what would do.
#pragma once

#include "layout/mesh.h"
#include "recipe/model_config.h"
#include "recipe/parallel_options.h"

namespace longhaul::parallel {

layout::Mesh mesh_of(const recipe::ParallelOptions& options, int64_t world);

// Heads and experts come out even, every stage has a layer, a tensor that stages share is used by all of them or by the first and last, and
// the method of context attention can share the key heads.
void require_possible(const recipe::ModelConfig& model, const layout::Mesh& mesh, const recipe::ContextOptions& context);

}  // namespace longhaul::parallel
