#include "comm/c10d/own_gpus.h"

#include <map>

#include "base/checksum.h"

namespace longhaul::comm {

void require_own_gpus(Communicator& world, const std::string& identity, at::Device device) {
  const Tensor all = at::empty({world.size()}, at::kLong);
  world
      .all_gather(at::full({1}, static_cast<int64_t>(xxh3(identity)), at::kLong), all,
                  {.name = "GPUs of the ranks"})
      .wait();
  std::map<int64_t, int64_t> first_with;
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    const auto [found, is_new] = first_with.try_emplace(all[rank].item<int64_t>(), rank);
    if (is_new) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "two ranks have the same GPU",
                 .expected = "a GPU for each rank",
                 .found = fmt::format("ranks {} and {} have one (this is rank {}, on {})", found->second,
                                      rank, world.rank(), device.str()),
                 .where = "train.device and what starts the ranks",
                 .hint = "leave train.device out: each rank then takes the GPU of its number on its machine; "
                         "and start no more ranks on a "
                         "machine than it has GPUs"});
  }
}

}  // namespace longhaul::comm
