#include "checkpoint/disk/disk_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/progress.h"
#include "storage/catalog.h"

namespace longhaul::checkpoint {
namespace {

int64_t bytes_of(Providers state) {
  // padding of two headers, the recipe and the fixed parts of the manifest
  constexpr int64_t kFrame = 32 << 10;
  // a tensor's line in header and manifest, besides its name, which is written three times
  constexpr int64_t kEntry = 400;
  int64_t sum = kFrame;
  for (const StateEntry& entry : tensors_of(state)) {
    if (entry.to_write())
      sum += static_cast<int64_t>(entry.view.nbytes()) + kEntry + 3 * static_cast<int64_t>(entry.name.size());
  }
  return sum;
}

int64_t most_at_once(const recipe::TrainOptions& train) {
  const int64_t every = train.checkpoint_every < 0 ? 1 : train.checkpoint_every;  // at most
  const int64_t saves = every > 0 ? (train.steps + every - 1) / every : 1;
  if (train.checkpoint_keep == 0 || train.checkpoint_keep >= saves) return saves;
  const int64_t forever = train.checkpoint_keep_every > 0 ? train.steps / train.checkpoint_keep_every : 0;
  return std::min(saves, train.checkpoint_keep + 1 + forever);
}

}  // namespace

DiskNeed disk_need(const storage::FileSystem& files, const std::filesystem::path& folder, Providers state,
                   const recipe::TrainOptions& train) {
  DiskNeed need{.folder = folder,
                .one_bytes = bytes_of(state),
                .most = most_at_once(train),
                .free_bytes = files.free_bytes(folder)};
  for (const auto& summary : storage::list_checkpoints(files, folder)) need.there_bytes += summary.bytes;
  return need;
}

std::optional<std::string> DiskNeed::warning() const {
  int64_t all_bytes = 0;
  if (__builtin_mul_overflow(most, one_bytes, &all_bytes)) all_bytes = std::numeric_limits<int64_t>::max();
  if (free_bytes >= one_bytes && free_bytes >= all_bytes - there_bytes) return std::nullopt;
  const std::string fits = free_bytes >= one_bytes ? "one checkpoint fits, but not all that the run keeps"
                                                   : "not even one checkpoint fits";
  return fmt::format(
      "{}: one takes {}, the run holds up to {} at once ({}), {} of which are there; {} are free in {}. Make "
      "room, choose another folder "
      "(--run DIR), or lower train.checkpoint_keep",
      fits, bytes_text(one_bytes), most, bytes_text(all_bytes), bytes_text(there_bytes),
      bytes_text(free_bytes), folder.string());
}

}  // namespace longhaul::checkpoint
