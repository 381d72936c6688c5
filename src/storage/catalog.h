// Catalog: the checkpoints of a run's folder. Folders without a valid manifest do not count; `latest` is a hint for people and
// scripts, never trusted: the newest checkpoint is found by looking at all of them.
//
// Newest means highest generation, then highest step: after a rollback, what the later start saved supersedes the steps
// that the earlier one had reached.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "storage/checkpoint_files.h"
#include "storage/commit.h"

namespace longhaul::storage {

struct CheckpointSummary {
  std::filesystem::path path;
  CheckpointName name;
  std::string defect;  // empty: manifest, files and sizes are in order (contents are verify's business)
  std::string run_id, wall_time;
  int64_t generation = 0;
  int64_t bytes = 0, tensors = 0, files = 0;
  bool is_latest = false, is_protected = false, is_leased = false;

  bool usable() const { return defect.empty(); }
};

struct CatalogOptions {
  double now_s = 0;                // Unix time, for the age of leases
  double lease_expires_s = 86400;  // an older lease belongs to a job that died
};

// Committed (and displaced) checkpoints, newest first, defective ones last. Unfinished folders are not listed.
std::vector<CheckpointSummary> list_checkpoints(const FileSystem& files, const std::filesystem::path& checkpoints,
                                                const CatalogOptions& options);

struct Search {
  std::optional<Checkpoint> newest;
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };
  std::vector<Rejected> rejected;  // newer than `newest`, and why they were passed over
};

enum class Depth { kSizes, kContents /*every byte, as on every restart*/ };
Search find_newest_valid(const FileSystem& files, const std::filesystem::path& checkpoints, Depth depth = Depth::kContents);

// What a path that a person typed names: all checkpoints of a run (its folder, or the `checkpoints` inside), or one of them (its
// folder, a manifest.json, or `latest`, which names one). Error (66) for any other file.
struct NamedCheckpoints {
  std::filesystem::path folder;  // of all, or of the one
  bool is_one = false;
};
NamedCheckpoints resolve(const FileSystem& files, const std::filesystem::path& path);

// The checkpoint that resolve() finds; of several the newest valid one, with a warning about those passed over. Error (66) when there is
// none, listing what was rejected and why.
Checkpoint open_checkpoint(const FileSystem& files, const std::filesystem::path& path, Depth depth = Depth::kSizes);

// Keeps retention away from a checkpoint while the object lives: a restarting job takes one on what it is about to load.
class Lease {
 public:
  Lease(FileSystem& files, const std::filesystem::path& checkpoint, const std::string& holder);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  FileSystem& files_;
  std::filesystem::path path_;
};

void protect(FileSystem& files, const std::filesystem::path& checkpoint);  // step-….keep beside it: never pruned
void unprotect(FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace longhaul::storage
