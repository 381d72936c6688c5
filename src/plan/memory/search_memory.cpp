#include "plan/memory/search_memory.h"

#include <algorithm>

namespace longhaul::plan {
namespace {

double real(int64_t x) { return static_cast<double>(x); }

// For parameters of which `copies` ranks hold copies; `passing`: those of one layer and the next, which are
// fetched and released at stage 3.
void add_state(double parameters, double passing, int64_t copies, const PlanLayout& layout,
               SearchMemory& memory) {
  const double n = std::max(1.0, real(copies / layout.zero_copies));
  const int64_t zero = n > 1 ? layout.zero : 0;
  memory.weights += 2 * (zero >= 3 ? parameters / n + std::min(parameters, passing) : parameters);
  memory.gradients += 4 * (zero >= 2 ? parameters / n + std::min(parameters, passing) : parameters);
  memory.optimizer += 12 * (zero >= 1 ? parameters / n : parameters);
}

}  // namespace

std::vector<std::pair<const char*, double>> SearchMemory::rows() const {
  return {{"weights", weights},         {"gradients", gradients}, {"optimizer state", optimizer},
          {"activations", activations}, {"output head", head},    {"reserved", reserved}};
}

double in_flight(const PlanLayout& layout, int64_t micro_batches) {
  using recipe::PipelineSchedule;
  const double p = real(layout.pp), m = real(micro_batches);
  switch (layout.schedule) {
    case PipelineSchedule::kGpipe:
      return m;
    case PipelineSchedule::kInterleaved:
      return std::min(m, p * (1 + (p - 1) / (p * real(layout.chunks))));
    case PipelineSchedule::kDualPipe:
      return std::min(m, p + 1);
    default:  // 1F1B, and the zero-bubble methods that keep to its memory
      return std::min(m, p);
  }
}

SearchMemory search_memory(const Work& work, const PlanLayout& layout, int64_t batch,
                           const Cluster& cluster) {
  const double tp = real(layout.tp), layers = layers_of_rank(work, layout),
               held = real(layout.stage_copies()) * layers;
  SearchMemory memory;
  // Ends of the pipeline hold the embedding, or the head; a single rank holds both.
  const double ends = both_ends(layout) ? work.embedding_parameters + work.head_parameters
                                        : std::max(work.embedding_parameters, work.head_parameters);
  const double dense_layer = work.dense_parameters_of(layout.tp),
               experts_layer = work.expert_parameters / real(layout.ep * layout.etp);
  add_state(held * dense_layer, 2 * dense_layer, layout.dp * layout.cp, layout, memory);
  // Embedding and head: their gradients stay whole at every stage of ZeRO, and their values are fetched for
  // the passes.
  const double n = real(layout.dp * layout.cp) / real(layout.zero_copies);
  memory.weights += 2 * ends / tp * (layout.zero >= 3 && n > 1 ? 1 / n + 1 : 1);
  memory.gradients += 4 * ends / tp;
  memory.optimizer += 12 * ends / tp / (layout.zero >= 1 ? n : 1);
  add_state(held * experts_layer, 2 * experts_layer, layout.expert_copies(), layout, memory);
  const double tokens = real(layout.micro_batch) * work.sequence / real(layout.cp);
  // Beside what waits, one layer whole while its gradients are made.
  const double passes = in_flight(layout, layout.micro_batches(batch)), again = layers_again(work, layout),
               whole_layer = work.kept_of(recipe::Recompute::kNone, layout.tp),
               recomputed_layer = work.kept_of(layout.recompute, layout.tp);
  const double waiting = layout.offload || layout.to_host
                             ? recomputed_layer * std::min(passes * layers, 2.0)
                             : passes * (again * recomputed_layer + (layers - again) * whole_layer);
  memory.activations = tokens * (waiting + whole_layer);
  // The loss processes the vocabulary in eighths.
  memory.head = tokens / tp * (2 * work.input_bytes + 4 * work.vocabulary * 0.125);
  memory.reserved = cluster.reserved_bytes + cluster.fragmentation * memory.total();
  return memory;
}

}  // namespace longhaul::plan
