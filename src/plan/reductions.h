// What data ranks exchange in a step: gradients that are summed, values that come back. Once a step, or layer by layer with every pass
// (stages 2 and 3 of ZeRO), and what of it shows beside the passes. Seconds.
#pragma once

#include "plan/step_time.h"

namespace longhaul::plan {

struct Reduction {
  double sums = 0, values = 0;
  Reduction operator+(const Reduction& other) const { return {sums + other.sums, values + other.values}; }
};

// Of `parameters` of a rank, which `copies` ranks hold alike, `stride` ranks apart. Stages 2 and 3 of ZeRO sum a layer's gradients after each of its
// backward passes, since nobody has room for all of them; stage 3 brings a layer's values for each of its passes; else both once a step, stage by stage.
// Where shares have copies their sums go between these. Without shares all gradients come back, rather than values.
Reduction reduction_of(double parameters, int64_t copies, int64_t stride, const PlanLayout& layout, double micro_batches, double layers,
                       const Cluster& cluster, double gradient_bytes);

// What of a rank's whole reduction shows. `of_a_micro_batch`: its passes over all that the rank holds.
double exposed_seconds(const Reduction& all, const PlanLayout& layout, const Practice& practice, const StepParts& of_a_micro_batch,
                       double micro_batches, double layers);

}  // namespace longhaul::plan
