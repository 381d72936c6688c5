#include "model/spiking_product.h"

#include "base/error.h"
#include "kernels/spikes/counts.h"
#include "kernels/spikes/integer_product.h"
#include "kernels/spikes/statistics.h"

namespace longhaul::model {
namespace {

kernels::SpikeInput input_of(const Spiking& spiking) {
  return {.k = spiking.options.k, .rounded_weight = spiking.options.weights == recipe::SpikeWeights::kInt8};
}

void note_counts(const Spiking& spiking, const Tensor& x, const Parameter& weight) {
  if (spiking.statistics == nullptr) return;
  const kernels::SpikeCounts counts = kernels::spike_counts(x, spiking.options.k);
  if (spiking.statistics->gathers_squares())
    spiking.statistics->add_squares(weight.name, counts.count_tc, counts.threshold_t);
  else
    spiking.statistics->add(weight.name, counts.count_tc);
}

}  // namespace

kernels::Coding coding_of(recipe::SpikeCoding coding) {
  LONGHAUL_ASSERT(coding != recipe::SpikeCoding::kNone, "no spikes have no coding");
  return static_cast<kernels::Coding>(static_cast<int>(coding) - 1);
}

std::shared_ptr<kernels::SpikeStatistics> gather_statistics(Spiking& spiking) {
  return spiking.statistics = std::make_shared<kernels::SpikeStatistics>(coding_of(spiking.options.coding));
}

Tensor spiking_product(const Spiking& spiking, const Tensor& x, const Parameter& weight,
                       const kernels::LinearWeights& own) {
  note_counts(spiking, x, weight);
  if (weight.groups) return kernels::integer_linear(x, spiking.options.k, *weight.groups, own.bias);
  return kernels::linear(x, own.weight, own.bias, own.sinks, own.kept, input_of(spiking));
}

Tensor spiking_grouped_product(const Spiking& spiking, const Tensor& x,
                               const std::vector<int64_t>& rows_per_expert, const Parameter& weight,
                               const kernels::LinearWeights& own) {
  note_counts(spiking, x, weight);
  if (weight.groups)
    return kernels::integer_grouped_linear(x, rows_per_expert, spiking.options.k, *weight.groups);
  return kernels::grouped_linear(x, rows_per_expert, own.weight, own.sinks.weight, own.kept,
                                 input_of(spiking));
}

}  // namespace longhaul::model
