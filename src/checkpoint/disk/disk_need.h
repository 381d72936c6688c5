// DiskNeed: what a run's checkpoints take on the disk, asked before the first one is written.
//
//   const auto need = disk_need(files, run / "checkpoints", state, recipe.train);
//   if (const auto warning = need.warning()) log_warning("{}", *warning);
//
// Bytes of one checkpoint are those of the tensors that this process writes, exactly, and of headers and manifest, by an estimate that is not too low.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state.h"
#include "recipe/sections/train_options.h"
#include "storage/file_system.h"

namespace longhaul::checkpoint {

struct DiskNeed {
  std::filesystem::path folder;
  int64_t one_bytes = 0;    // one checkpoint
  int64_t most = 0;         // checkpoints that the run holds at once: those kept, and the one being written before an old one goes
  int64_t there_bytes = 0;  // taken by checkpoints that lie there already; they make room in time
  int64_t free_bytes = 0;

  std::optional<std::string> warning() const;  // none: everything fits
};

DiskNeed disk_need(const storage::FileSystem& files, const std::filesystem::path& folder, Providers state,
                   const recipe::TrainOptions& train);

}  // namespace longhaul::checkpoint
