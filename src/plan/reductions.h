// The exchanges of data ranks in a step: gradients are summed, weights are returned. They happen once per
// step, or layer by layer with every pass (stages 2 and 3 of ZeRO); exposed_seconds() gives the part that the
// passes do not hide. In seconds.
#pragma once

#include "plan/step_time.h"

namespace longhaul::plan {

struct Reduction {
  double sums = 0, values = 0;
  Reduction operator+(const Reduction& other) const { return {sums + other.sums, values + other.values}; }
};

// For `parameters` of a rank, of which `copies` ranks, `stride` ranks apart, hold copies. Stages 2 and 3 of
// ZeRO sum a layer's gradients after each of its backward passes, because no rank has space for all of them;
// stage 3 fetches a layer's weights for each of its passes; otherwise both happen once per step, stage by
// stage. Where shares have copies, their sums are exchanged between these. Without shares all gradients come
// back instead of weights.
Reduction reduction_of(double parameters, int64_t copies, int64_t stride, const PlanLayout& layout,
                       double micro_batches, double layers, const Cluster& cluster, double gradient_bytes);

// The visible part of a rank's whole reduction. `of_a_micro_batch`: the passes of one micro-batch over all
// layers of the rank.
double exposed_seconds(const Reduction& all, const PlanLayout& layout, const Practice& practice,
                       const StepParts& of_a_micro_batch, double micro_batches, double layers);

}  // namespace longhaul::plan
