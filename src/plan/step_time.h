// The time of a step under a layout, by part, in closed formulas that take a microsecond each. Layers:
// products, attention, recurrences, elementwise operators, exchanges of tensor, context and expert ranks;
// then the pipeline's messages and its bubble, the gradient reduction, the update. docs/guides/plan.md has
// the formulas and what they leave out. In seconds.
#pragma once

#include <optional>
#include <string>

#include "layout/schedule/pipeline.h"
#include "plan/cluster.h"
#include "plan/work.h"

namespace longhaul::plan {

struct PlanLayout {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  int64_t zero = 1, zero_copies = 1;
  recipe::PipelineSchedule schedule = recipe::PipelineSchedule::k1F1B;
  int64_t chunks = 1;  // stages per rank
  // As in recipe::PipelineOptions. The formulas know the longer bubble of such pairs; only the simulated
  // engine knows what they hide.
  bool pairs_in_turns = false;
  int64_t micro_batch = 1;
  recipe::Recompute recompute = recipe::Recompute::kNone;
  int64_t recompute_layers = 0;  // of each stage so many, the first ones, are recomputed; 0: all
  bool offload = false;          // train.offload = file: activations go there and back, while passes wait
  bool to_host = false;          // train.offload = host: copies hide behind compute as far as they can
  std::optional<double> host_share{};  // of rows; none: as much as hides
  recipe::Dispatcher dispatcher = recipe::Dispatcher::kAllToAll;
  recipe::ContextOptions context{};
  int64_t world() const { return dp * tp * pp * cp; }
  int64_t expert_copies() const { return dp * tp * cp / (ep * etp); }
  int64_t micro_batches(int64_t batch) const { return batch / (dp * micro_batch); }
  // Stages of one rank through which a micro-batch passes, and ranks of a replica that hold each stage: in
  // dualpipe a rank has two stages, and each micro-batch passes through one of them.
  int64_t visits() const { return stage_copies() > 1 ? 1 : chunks; }
  int64_t stage_copies() const { return pp > 1 && schedule == recipe::PipelineSchedule::kDualPipe ? 2 : 1; }
  // Whether the two passes of a pair may take turns, as a recipe's layout has it unless it says otherwise.
  bool can_pair() const { return stage_copies() > 1 && ep * etp > 1; }
  layout::RankSizes sizes() const;
  std::string text() const;
  bool operator==(const PlanLayout&) const = default;
};

// The layout of a recipe's [parallel] and [train].
PlanLayout layout_of_recipe(const recipe::Recipe& recipe);

// For exchanges that ZeRO makes layer by layer: the visible part of the shorter of exchange and passes. It
// was set with LLM Foundry's 17 rows after their errors were known (plan_test CalibrationOfLayers.*).
inline constexpr double kLayerExposed = 0.65;

// Practice: implementation properties that a recipe does not give: what computation hides, and how operators
// are written. The defaults are those of Longhaul.
struct Practice {
  // Share of each exchange that nothing hides.
  double tensor_exposed = 1, pipeline_exposed = 1, data_exposed = 1;
  // Visible exchanges of tensor ranks in a backward pass, relative to a forward pass.
  double backward_tensor = 1;
  // Norms and residuals are fused: 10 bytes per channel instead of 24, in addition to the mixer's own.
  bool fused = true;
  bool flash = true;   // scores are never written to memory
  bool causal = true;  // the masked half of attention is not computed
  double window = 0;   // in tokens; 0: all
  // Norms and residuals are distributed over tensor ranks by tokens; else each rank has all of them.
  bool sequence_parallel = true;
  double attention = 0;  // Share of the peak, in place of the efficiency's, for older kernels.
  // Visible part of the shorter of ZeRO's layer-by-layer exchange and the passes beside it.
  double layer_exposed = 1;
  // Gradient sums overlap with the last backward pass, weights are fetched during the first forward pass.
  bool data_beside = false;
  double gradient_bytes = 4;  // per parameter, in sums over copies
  // Bytes read and written per parameter: its gradient (norm, clearing), moments, master, copy.
  double update_bytes = 38;
  double loss_bytes = 12;  // bytes read and written per number that the head makes
  double imbalance = 1;    // rows of the busiest expert / mean
  // Recomputing a layer repeats softmax attention and its exchanges; else their result was kept.
  bool attention_again = false;
};
Practice default_practice(const PlanLayout& layout);

struct StepParts {
  // Of all micro-batches, forward and backward.
  double products = 0, attention = 0, recurrence = 0, elementwise = 0, layer_overhead = 0;
  double recomputation = 0;
  double tensor_exchange = 0, context_exchange = 0, expert_exchange = 0, pipeline_exchange = 0;
  double head = 0, bubble = 0, gradients = 0, update = 0, offload = 0, fixed = 0;
  // Of one micro-batch on all layers of a rank.
  double forward = 0, backward_input = 0, backward_weight = 0, transfer = 0;
  double total() const;
  std::vector<std::pair<const char*, double>> rows() const;  // parts that sum to the total
};

StepParts step_parts(const Work& work, const PlanLayout& layout, int64_t batch, const Cluster& cluster,
                     const Practice& practice);

// Layers of the fullest rank through which a micro-batch passes; they determine the speed. Stages are as even
// as whole layers allow.
double layers_of_rank(const Work& work, const PlanLayout& layout);
// Layers of one stage, the fullest.
int64_t layers_of_stage(const Work& work, const PlanLayout& layout);
// How many layers of a rank are recomputed (PlanLayout::recompute_layers).
double layers_again(const Work& work, const PlanLayout& layout);
// Places for layers that stay empty. If there is one, the stage with the head has one layer less; if there
// are two, the stage with the embedding has too.
double spare_layers(const Work& work, const PlanLayout& layout);

// True if one rank has the embedding and the head.
bool both_ends(const PlanLayout& layout);

// Bytes of recurrences' states that a context rank sends for the mean layer in the forward pass of a
// micro-batch of one document, by the method of layout.context.
double exchanged_state_bytes(const Work& work, const PlanLayout& layout);

// The bubble of one step, in addition to the passes, when all stages take equally long: by the schedule's
// formula, where there is one.
double bubble_seconds(const PlanLayout& layout, int64_t micro_batches, const StepParts& of_a_micro_batch);

}  // namespace longhaul::plan
