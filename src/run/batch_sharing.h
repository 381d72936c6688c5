// How the ranks of one machine share the batches that several of them read: the tensor, pipeline and context
// ranks of a replica read the same rows.
#pragma once

#include <memory>
#include <vector>

#include "data/order/batch_share.h"
#include "parallel/ranks.h"

namespace longhaul::run {

// For ranks that are threads, in `workers` copies of one mesh: one share for each replica (Ranks::replica);
// null where each rank is a replica.
std::vector<std::shared_ptr<data::BatchShare>> shares_between_threads(const layout::Mesh& mesh,
                                                                      int64_t workers);

// For ranks that are processes; a collective call. `run` is the same on all ranks and unique to the run. Null
// where this rank's replica has no other rank on its machine, or a machine has no memory that processes can
// share.
std::shared_ptr<data::BatchShare> share_between_processes(const parallel::Ranks& ranks,
                                                          const std::string& run);

}  // namespace longhaul::run
