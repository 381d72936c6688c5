// How long a step takes under a layout, by part: closed formulas, a microsecond each. Layers: products, attention, recurrences, elementwise
// operators, exchanges of tensor, context and expert ranks; then the pipeline's messages and its bubble, the reduction of gradients, the update.
// docs/guides/plan.md has the formulas and what they leave out. Seconds.
#pragma once

#include <string>

#include "layout/schedule/pipeline.h"
#include "plan/cluster.h"
#include "plan/work.h"

namespace longhaul::plan {

struct PlanLayout {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  int64_t zero = 1, zero_copies = 1;
  recipe::PipelineSchedule schedule = recipe::PipelineSchedule::k1F1B;
  int64_t chunks = 1;           // stages on a rank
  bool pairs_in_turns = false;  // as recipe::PipelineOptions has it; the simulated engine alone knows what that hides
  int64_t micro_batch = 1;
  recipe::Recompute recompute = recipe::Recompute::kNone;
  bool offload = false;  // train.offload: activations to a file and back, while passes wait
  recipe::Dispatcher dispatcher = recipe::Dispatcher::kAllToAll;
  int64_t world() const { return dp * tp * pp * cp; }
  int64_t expert_copies() const { return dp * tp * cp / (ep * etp); }
  int64_t micro_batches(int64_t batch) const { return batch / (dp * micro_batch); }
  std::string text() const;
  bool operator==(const PlanLayout&) const = default;
};

// As a recipe's [parallel] and [train] say.
PlanLayout layout_of_recipe(const recipe::Recipe& recipe);

// Of exchanges that ZeRO makes layer by layer: what shows of the shorter of exchange and passes. Set with LLM Foundry's 17 rows after their errors had been
// seen (plan_test CalibrationOfLayers.*).
inline constexpr double kLayerExposed = 0.65;

// How it is done, where a recipe does not say: what is hidden behind computing, and how operators are written. Longhaul's own by default.
struct Practice {
  double tensor_exposed = 1, pipeline_exposed = 1, data_exposed = 1;  // share of each exchange that nothing hides
  double backward_tensor = 1;     // exchanges of tensor ranks that show in a backward pass, over those of a forward pass
  bool fused = true;              // norms and residuals joined: 10 bytes a channel rather than 24, beside the mixer's own
  bool flash = true;              // scores never reach memory
  bool causal = true;             // the masked half of attention is not computed
  double window = 0;              // tokens; 0: all
  bool sequence_parallel = true;  // norms and residuals lie on tensor ranks by tokens; else each has all of them
  double attention = 0;           // of the peak, in place of the efficiency's, for older kernels
  double layer_exposed = 1;       // of what ZeRO exchanges layer by layer and of the passes beside it, what shows of the shorter
  bool data_beside = false;       // sums of gradients run beside the last backward pass, weights come beside the first forward pass
  double gradient_bytes = 4;      // of a parameter, in sums over copies
  double update_bytes = 38;       // read and written of a parameter: its gradient (norm, clearing), moments, master, copy
  double loss_bytes = 12;         // likewise of each number that the head makes
  double imbalance = 1;           // the busiest expert's rows over the mean
  bool attention_again = false;  // a layer that is made again makes softmax attention, and its exchanges, again; else their result was kept
};
Practice default_practice(const PlanLayout& layout);

struct StepParts {
  double products = 0, attention = 0, recurrence = 0, elementwise = 0, layer_overhead = 0;  // of all micro-batches, forward and backward
  double recomputation = 0;
  double tensor_exchange = 0, context_exchange = 0, expert_exchange = 0, pipeline_exchange = 0;
  double head = 0, bubble = 0, gradients = 0, update = 0, offload = 0, fixed = 0;
  double forward = 0, backward_input = 0, backward_weight = 0, transfer = 0;  // of one micro-batch on all that a rank holds
  double total() const;
  std::vector<std::pair<const char*, double>> rows() const;  // parts that sum to the total
};

StepParts step_parts(const Work& work, const PlanLayout& layout, int64_t batch, const Cluster& cluster, const Practice& practice);

// Of the fullest rank, which sets the pace: stages are as even as whole layers let them be.
double layers_of_rank(const Work& work, const PlanLayout& layout);
// Places for layers that none fills. Where there is one the stage that has the head has a layer less, where there are two the embedding's too.
double spare_layers(const Work& work, const PlanLayout& layout);

// Whether one rank has the embedding and the head.
bool both_ends(const PlanLayout& layout);

// Of one step, beyond the passes themselves, when all stages take the same: by the schedule's formula, where there is one.
double bubble_seconds(const PlanLayout& layout, int64_t micro_batches, const StepParts& of_a_micro_batch);

}  // namespace longhaul::plan
