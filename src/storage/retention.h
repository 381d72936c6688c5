// Retention: which checkpoints stay. Kept are the newest `keep_last`, every one whose step is a multiple of `keep_every`, the
// protected ones, the target of `latest`, those with a live lease, and whatever this version cannot read. Nothing goes
// before a newer checkpoint is committed and every byte of it has been verified. Removing begins with a rename, so a
// half-removed checkpoint is never taken for one. One process prunes a folder at a time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "storage/catalog.h"

namespace longhaul::storage {

struct RetentionPolicy {
  int64_t keep_last = 3;
  int64_t keep_every = 0;             // steps; 0: none for this reason
  std::set<int64_t> protected_steps;  // beside the ones marked with protect()
  double orphans_after_s = 86400;     // unfinished folders of earlier generations go after this age
  double lease_expires_s = 86400;
};

struct PruneReport {
  std::vector<std::filesystem::path> removed;
  struct Kept {
    std::filesystem::path path;
    std::string reason;
  };
  std::vector<Kept> kept;
};

enum class Prune { kRemove, kOnlyReport };

// `generation`: of the caller; its own unfinished folder is in flight and left alone.
PruneReport prune(FileSystem& files, const std::filesystem::path& checkpoints, const RetentionPolicy& policy, int64_t generation,
                  double now_s, Prune mode = Prune::kRemove);

}  // namespace longhaul::storage
