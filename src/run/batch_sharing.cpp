#include "run/batch_sharing.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/memory/shared_memory.h"

namespace longhaul::run {

using layout::Axis;

std::vector<std::shared_ptr<data::BatchShare>> shares_between_threads(const layout::Mesh& mesh,
                                                                      int64_t workers) {
  const int64_t readers = mesh.world() / mesh.size(Axis::kDp), replicas = workers * mesh.size(Axis::kDp);
  std::vector<std::shared_ptr<data::BatchShare>> shares(static_cast<size_t>(replicas));
  if (readers == 1) return shares;
  for (auto& share : shares) share = data::share_between_threads(readers);
  return shares;
}

std::shared_ptr<data::BatchShare> share_between_processes(const parallel::Ranks& ranks,
                                                          const std::string& run) {
  const int64_t world = ranks.world()->size(), replica = ranks.replica(),
                machine = static_cast<int64_t>(shared_memory_id());
  const Tensor all = at::empty({2 * world}, at::kLong);
  ranks.world()->all_gather(at::tensor({machine, replica}, at::kLong), all, {"machines"}).wait();
  int64_t readers = 0;
  for (int64_t rank = 0; rank < world; ++rank) {
    readers +=
        all[2 * rank].item<int64_t>() == machine && all[2 * rank + 1].item<int64_t>() == replica ? 1 : 0;
  }
  std::filesystem::path folder;
  if (readers > 1) folder = shared_memory_folder(fmt::format("{}-{}", run, replica));
  const bool here = readers == 1 || !folder.empty();
  if (ranks.sum_of_run(here ? 0 : 1, "machines without shared memory") > 0) {
    if (ranks.rank() == 0)
      log_info("each rank reads its own batches: /dev/shm cannot be written on every machine");
    return nullptr;
  }
  return readers > 1 ? data::share_in_folder(folder, readers) : nullptr;
}

}  // namespace longhaul::run
