#include "parallel/possible.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "layout/parameters.h"
#include "parallel/context_attention.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;

void require_stages(const recipe::ModelConfig& model, const layout::Mesh& mesh) {
  if (mesh.size(Axis::kPp) <= model.layers) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "there are more pipeline stages than layers",
               .expected = fmt::format("parallel.pp of at most {}", model.layers),
               .found = std::to_string(mesh.size(Axis::kPp)),
               .where = "parallel.pp and model.layers",
               .hint = fmt::format("parallel.pp={}", model.layers)});
}

// Sums over stages have groups for two cases only.
void require_shared_evenly(const layout::ParameterSpec& spec, const std::vector<int64_t>& stages, int64_t count) {
  if (stages.size() < 2 || static_cast<int64_t>(stages.size()) == count || stages == std::vector<int64_t>{0, count - 1}) return;
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("some stages use {} and others do not", spec.tensor.name),
               .expected = "all stages, or the first and the last",
               .found = fmt::format("stages {} of {}", fmt::join(stages, ", "), count),
               .where = "parallel.pp",
               .hint = "choose parallel.pp so that each stage has a layer of every mixer"});
}

}  // namespace

layout::Mesh mesh_of(const recipe::ParallelOptions& options, int64_t world) {
  return {world, {.pp = options.pp, .cp = options.cp, .tp = options.tp, .ep = options.ep, .etp = options.etp}};
}

void require_possible(const recipe::ModelConfig& model, const layout::Mesh& mesh, const recipe::ContextOptions& context) {
  if (mesh.size(Axis::kEtp) > 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "tensors of an expert are not shared by ranks yet",
                 .expected = "parallel.etp = 1",
                 .found = std::to_string(mesh.size(Axis::kEtp)),
                 .where = "parallel.etp",
                 .hint = "parallel.etp=1 parallel.ep=…"});
  }
  if (mesh.size(Axis::kEp) > 1 && model.experts == 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the model has no experts that ranks could share",
                 .expected = "parallel.ep = 1",
                 .found = std::to_string(mesh.size(Axis::kEp)),
                 .where = "parallel.ep and model.experts",
                 .hint = "parallel.ep=1"});
  }
  require_stages(model, mesh);
  for (const layout::ParameterSpec& spec : layout::parameters(model)) {
    layout::placement_of(spec, mesh);  // refuses heads and experts that do not come out even
    require_shared_evenly(spec, layout::stages_of(spec, model, mesh), mesh.size(Axis::kPp));
  }
  const std::vector<recipe::Mixer> mixers = recipe::mixers_used(model);
  const bool attends = std::ranges::find(mixers, recipe::Mixer::kSoftmax) != mixers.end();
  if (attends && mesh.size(Axis::kCp) > 1) head_ranks(context.softmax, mesh.size(Axis::kCp), model.softmax.kv_heads / mesh.size(Axis::kTp));
}

}  // namespace longhaul::parallel
