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
  bool is_latest = false;     // `latest` names it
  bool is_protected = false;  // a file of its name with ".keep" behind it lies beside it

  bool usable() const { return defect.empty(); }
};

// Committed (and displaced) checkpoints, newest first, defective ones last. Newest: the highest generation, of that the highest step.
// Unfinished folders are not listed, nor those that somebody removed meanwhile. With a role only files of such tensors count (the
// weights of a checkpoint serve without the states of its optimizer). That the process has too many files open is no defect of a
// checkpoint but an Error (73).
std::vector<CheckpointSummary> list_checkpoints(const FileSystem& files, const std::filesystem::path& checkpoints,
                                                std::string_view role = kAllRoles);
// Their names, without looking into them.
std::vector<std::string> committed_names(const FileSystem& files, const std::filesystem::path& checkpoints);

struct Search {
  std::optional<Checkpoint> newest;
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };
  std::vector<Rejected> rejected;  // newer than `newest`, and why they were passed over
};

enum class Depth { kSizes, kContents /*every byte, as on every restart*/ };
Search find_newest_valid(const FileSystem& files, const std::filesystem::path& checkpoints, Depth depth = Depth::kContents,
                         std::string_view role = kAllRoles);

// What a path that a person typed names: all checkpoints of a run (its folder, or the `checkpoints` inside), or one of them: its
// folder, its manifest.json, "step-000000012" for the newest of that step, or `latest` for the newest of all, which is looked up: the
// file of that name may be stale or missing. Error (66) for anything else.
struct NamedCheckpoints {
  std::filesystem::path folder;  // of all, or of the one
  bool is_one = false;
};
NamedCheckpoints resolve(const FileSystem& files, const std::filesystem::path& path);

// The checkpoint that resolve() finds; of several the newest valid one, with a warning about those passed over. Error (66) when there is
// none, listing what was rejected and why. With a role nothing else of it is looked at.
Checkpoint open_checkpoint(const FileSystem& files, const std::filesystem::path& path, Depth depth = Depth::kSizes,
                           std::string_view role = kAllRoles);

}  // namespace longhaul::storage
