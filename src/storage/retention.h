// Retention: which checkpoints stay. Kept are the newest `keep_last`, every one whose step is a multiple of `keep_every`, those marked
// with a ".keep" file, the target of `latest`, and whatever is damaged or of a later generation than the caller's. Nothing goes before a
// newer checkpoint has been read back whole; a name is never used twice, so one reading serves until that checkpoint itself is due. Who
// can read faster than one process (the ranks of a run, each some files) asks unread_before_pruning() what must be read first, and says
// what came of it.
// Removing begins with a rename, so a half-removed checkpoint is never taken for one. Several processes may prune a folder at once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "storage/catalog.h"

namespace longhaul::storage {

struct RetentionPolicy {
  int64_t keep_last = 3;           // at least 1
  int64_t keep_every = 0;          // steps; 0: none for this reason
  double orphans_after_s = 86400;  // unfinished folders of earlier generations go after this age
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

// Checkpoints that this process has read back: whole, or what was found.
struct ReadBack {
  std::set<std::filesystem::path> whole;
  std::map<std::filesystem::path, std::string> damaged;
};

// What must be read back before anything may go; none: nothing goes, or enough is known.
std::optional<std::filesystem::path> unread_before_pruning(const FileSystem& files, const std::filesystem::path& checkpoints,
                                                           const RetentionPolicy& policy, int64_t generation, const ReadBack& known);

// `generation`: of the caller; its own unfinished folder is in flight and left alone. `known`: what need not be read again; what is
// read now is added.
PruneReport prune(FileSystem& files, const std::filesystem::path& checkpoints, const RetentionPolicy& policy, int64_t generation,
                  double now_s, ReadBack& known, Prune mode = Prune::kRemove);

}  // namespace longhaul::storage
