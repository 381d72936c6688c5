// Catalog: the checkpoints in a run's folder. Folders without a valid manifest do not count. `latest` is a
// hint for people and scripts and is never trusted: the newest checkpoint is found by looking at all of them.
//
// The newest checkpoint has the highest generation and, within it, the highest step: after a rollback, the
// checkpoints of the later start supersede the steps that the earlier one had reached.
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
  std::string defect;  // Empty: manifest, files and sizes are in order (verify() checks the contents).
  std::string run_id, wall_time;
  int64_t generation = 0;
  int64_t bytes = 0, tensors = 0, files = 0;
  bool is_latest = false;     // `latest` names it
  bool is_protected = false;  // a file of its name with the suffix ".keep" exists

  bool usable() const { return defect.empty(); }
};

// Lists committed (and displaced) checkpoints, newest first, defective ones last. Unfinished folders are not
// listed, and neither are those that somebody removed meanwhile. With a role, only files with such tensors
// are checked (the weights of a checkpoint can be used without its optimizer states). If the process has too
// many open files, that is an Error (73) and no defect of a checkpoint.
std::vector<CheckpointSummary> list_checkpoints(const FileSystem& files,
                                                const std::filesystem::path& checkpoints,
                                                std::string_view role = kAllRoles);
// Only the names of the checkpoints, without looking into them.
std::vector<std::string> committed_names(const FileSystem& files, const std::filesystem::path& checkpoints);

struct Search {
  std::optional<Checkpoint> newest;
  struct Rejected {
    std::filesystem::path path;
    std::string reason;
  };
  std::vector<Rejected> rejected;  // newer than `newest`, with the reasons why they were rejected
};

enum class Depth { kSizes, kContents /*every byte, as on every restart*/ };
Search find_newest_valid(const FileSystem& files, const std::filesystem::path& checkpoints,
                         Depth depth = Depth::kContents, std::string_view role = kAllRoles);

// The checkpoints that a typed path names. They are all checkpoints of a run (its folder, or the
// `checkpoints` folder in it), or one of them: its folder, its manifest.json, "step-000000012" for the newest
// of that step, or `latest` for the newest of all. The newest is searched for, because the file `latest` may
// be stale or missing. Error (66) for anything else.
struct NamedCheckpoints {
  std::filesystem::path folder;  // the folder of all, or of the one
  bool is_one = false;
};
NamedCheckpoints resolve(const FileSystem& files, const std::filesystem::path& path);

// Opens the checkpoint that resolve() finds; of several the newest valid one, with a warning about rejected
// ones. Error (66) when there is none, with a list of the rejected ones and the reasons. With a role only
// files of that role are checked.
Checkpoint open_checkpoint(const FileSystem& files, const std::filesystem::path& path,
                           Depth depth = Depth::kSizes, std::string_view role = kAllRoles);

}  // namespace longhaul::storage
