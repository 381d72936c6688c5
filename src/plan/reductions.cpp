#include "plan/reductions.h"

#include <algorithm>

#include "plan/link_rates.h"

namespace longhaul::plan {
namespace {

double as_real(int64_t x) { return static_cast<double>(x); }

// The visible part of an exchange that comes layer by layer during passes. A layer's exchange overlaps with
// the computation of one other layer and no longer, so for all layers but one the shorter of the two is
// hidden, and `practice.layer_exposed` of it is visible: kernels that exchange and kernels that compute slow
// each other, and wait.
double shown_by_layers(double exchange, double passes, double layers, const Practice& practice) {
  return exchange - (1 - practice.layer_exposed) * (layers - 1) / layers * std::min(exchange, passes);
}

// Values that come once a step, beside the first forward pass where software hides them.
double shown_values(double values, double layers, const Practice& practice, const StepParts& pass) {
  return practice.data_beside ? std::max(values / layers, values - pass.forward)
                              : practice.data_exposed * values;
}

}  // namespace

Reduction reduction_of(double parameters, int64_t copies, int64_t stride, const PlanLayout& layout,
                       double micro_batches, double layers, const Cluster& cluster, double gradient_bytes) {
  const int64_t sharers = std::max<int64_t>(1, copies / layout.zero_copies), groups = copies / sharers;
  // 4: for the forward and for the backward pass.
  const double back = layout.zero >= 3 ? 4 : layout.zero >= 1 ? 2 : gradient_bytes;
  const double rounds = layout.zero >= 2 ? micro_batches : 1,
               pieces = layout.zero >= 2 ? layers : as_real(layout.chunks);
  const double gradients = gradient_bytes * parameters, message = gradients / pieces;
  const double message_of_values = layout.zero >= 3 ? 2 * parameters / pieces : message;
  const auto sum_seconds = layout.zero >= 2 ? layer_ring_seconds : ring_seconds;
  const auto value_seconds = layout.zero >= 3 ? layer_ring_seconds : ring_seconds;
  return {.sums = rounds * (sum_seconds(gradients, message, sharers, stride, cluster) +
                            sum_seconds(2 * gradients / as_real(sharers), message / as_real(sharers), groups,
                                        stride * sharers, cluster)),
          .values = (layout.zero >= 3 ? rounds : 1) *
                    value_seconds(back * parameters, message_of_values, sharers, stride, cluster)};
}

// Once per step: a stage's sums begin after its last backward pass. If a rank has several stages, each with
// its own round of as many micro-batches as there are ranks, the sums of all but the last stage overlap with
// passes; of the last stage's at least one layer's is visible.
double exposed_seconds(const Reduction& all, const PlanLayout& layout, const Practice& practice,
                       const StepParts& pass, double micro_batches, double layers) {
  const double sums = all.sums, values = all.values;
  const double forward = pass.forward, backward = pass.backward_input + pass.backward_weight;
  if (layout.zero >= 3) {
    return shown_by_layers(sums + values / 2, micro_batches * backward, layers, practice) +
           shown_by_layers(values / 2, micro_batches * forward, layers, practice);
  }
  if (layout.zero == 2)
    return shown_by_layers(sums, micro_batches * backward, layers, practice) +
           shown_values(values, layers, practice, pass);
  if (!practice.data_beside) return practice.data_exposed * (sums + values);
  if (layout.chunks == 1)
    return std::max(sums / layers, sums - backward) + shown_values(values, layers, practice, pass);
  const double chunks = as_real(layout.chunks),
               window = std::min(as_real(layout.pp), micro_batches) * (chunks - 1) / chunks;
  return std::max((sums + values) / chunks, sums + values - window * (backward + forward));
}

}  // namespace longhaul::plan
