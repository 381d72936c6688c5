// The products of a model whose layers' matrices read counts of spikes ([spikes], ParameterSet::spiking): in
// whole numbers where the weight is kept by groups (kernels/spikes/integer_product.h), and otherwise
// simulated with wide numbers, which also trains (kernels::SpikeInput). Both note the counts where statistics
// are gathered.
#pragma once

#include <vector>

#include "kernels/linear/feed_forward.h"
#include "kernels/spikes/statistics.h"
#include "model/parameter.h"

namespace longhaul::model {

kernels::Coding coding_of(recipe::SpikeCoding coding);  // not of kNone
// From now on the counts of all matrices of the model are gathered.
std::shared_ptr<kernels::SpikeStatistics> gather_statistics(Spiking& spiking);

// weight: the parameter that `own` is of.
Tensor spiking_product(const Spiking& spiking, const Tensor& x_ti, const Parameter& weight,
                       const kernels::LinearWeights& own);
Tensor spiking_grouped_product(const Spiking& spiking, const Tensor& x_ri,
                               const std::vector<int64_t>& rows_per_expert, const Parameter& weight,
                               const kernels::LinearWeights& own);

}  // namespace longhaul::model
