// DiskNeed: the disk space that a run's checkpoints need. It is computed before the first checkpoint is
// written, so that a warning comes early.
//
//   const auto need = disk_need(files, run / "checkpoints", state, recipe.train);
//   if (const auto warning = need.warning()) log_warning("{}", *warning);
//
// The size of one checkpoint is the exact size of the tensors that this process writes, plus an estimate of
// headers and manifest that is not too low.
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
  int64_t one_bytes = 0;  // one checkpoint
  // The most checkpoints at one time: those that retention keeps, and the one being written before an old
  // one is removed.
  int64_t most = 0;
  int64_t there_bytes = 0;  // used by checkpoints that exist already; retention removes them later
  int64_t free_bytes = 0;

  std::optional<std::string> warning() const;  // none: everything fits
};

DiskNeed disk_need(const storage::FileSystem& files, const std::filesystem::path& folder, Providers state,
                   const recipe::TrainOptions& train);

}  // namespace longhaul::checkpoint
