// Retention: the rules for which checkpoints are kept. Kept are the newest `keep_last`, every one whose step
// is a multiple of `keep_every`, those marked with a ".keep" file, the target of `latest`, those that a
// process is reading (lease.h), and all that are damaged or of a later generation than the caller's. A
// checkpoint is removed only after a newer one has been read back completely; a name is never used twice, so
// one reading suffices until that checkpoint itself is removed. A caller that can read faster than one
// process (the ranks of a run, each some of the files) asks unread_before_pruning() which checkpoint must be
// read first, and passes the result. Removal begins with a rename, so that a half-removed checkpoint is
// never taken for one. Several processes may prune a folder at once.
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
  int64_t keep_every = 0;          // in steps; 0: none for this reason
  double orphans_after_s = 86400;  // unfinished folders of earlier generations are removed after this age
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

// ReadBack: the checkpoints that this process has read back: the complete ones, and the damage that it found
// in others.
struct ReadBack {
  std::set<std::filesystem::path> whole;
  std::map<std::filesystem::path, std::string> damaged;
};

// The checkpoint that must be read back before anything may be removed; none: nothing will be removed, or
// enough is known.
std::optional<std::filesystem::path> unread_before_pruning(const FileSystem& files,
                                                           const std::filesystem::path& checkpoints,
                                                           const RetentionPolicy& policy, int64_t generation,
                                                           const ReadBack& known);

// `generation`: the caller's; its own unfinished folder is being written and left alone. `known`: what need
// not be read again; the results of new readings are added to it.
PruneReport prune(FileSystem& files, const std::filesystem::path& checkpoints, const RetentionPolicy& policy,
                  int64_t generation, double now_s, ReadBack& known, Prune mode = Prune::kRemove);

}  // namespace longhaul::storage
