#include "storage/retention.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

// Why a usable checkpoint stays; empty: it may go. `position` counts the committed ones from the newest.
std::string reason_to_keep(const CheckpointSummary& summary, int64_t position, const RetentionPolicy& policy) {
  if (summary.is_protected || policy.protected_steps.contains(summary.name.step)) return "protected";
  if (summary.is_leased) return "a job is about to load it";
  if (summary.is_latest) return "latest points to it";
  if (summary.name.kind == CheckpointName::Kind::kReplaced) return "";
  if (position < policy.keep_last) return fmt::format("among the newest {}", policy.keep_last);
  if (policy.keep_every > 0 && summary.name.step % policy.keep_every == 0) {
    return fmt::format("its step is a multiple of {}", policy.keep_every);
  }
  return "";
}

// Unfinished folders of earlier generations, once they are old, and what an interrupted removal left.
std::vector<fs::path> leftovers(const FileSystem& files, const fs::path& checkpoints, const RetentionPolicy& policy, int64_t generation,
                                double now_s) {
  std::vector<fs::path> found;
  for (const FolderEntry& entry : files.list(checkpoints)) {
    if (!entry.is_folder) continue;
    const fs::path path = checkpoints / entry.name;
    if (entry.name.starts_with(".deleted-")) found.push_back(path);
    const auto name = parse_checkpoint_name(entry.name);
    if (name && name->kind == CheckpointName::Kind::kTemporary && name->generation < generation &&
        files.modified_s(path) < now_s - policy.orphans_after_s) {
      found.push_back(path);
    }
  }
  return found;
}

}  // namespace

PruneReport prune(FileSystem& files, const fs::path& checkpoints, const RetentionPolicy& policy, int64_t generation, double now_s,
                  Prune mode) {
  PruneReport report;
  bool verified = false;  // whether a checkpoint newer than the one looked at has been read back whole
  int64_t position = 0;
  for (const CheckpointSummary& summary :
       list_checkpoints(files, checkpoints, {.now_s = now_s, .lease_expires_s = policy.lease_expires_s})) {
    if (!summary.usable()) {
      report.kept.push_back({summary.path, "it is not valid; remove it by hand when nobody needs to look into it"});
      continue;
    }
    if (!verified) {
      try {
        Checkpoint::open(files, summary.path).verify();
        verified = true;
        report.kept.push_back({summary.path, "the newest verified one"});
        if (summary.name.kind == CheckpointName::Kind::kCommitted) ++position;
      } catch (const Error& error) {
        report.kept.push_back({summary.path, fmt::format("damaged: {}", error.what())});
      }
      continue;
    }
    const std::string reason = reason_to_keep(summary, position, policy);
    if (summary.name.kind == CheckpointName::Kind::kCommitted) ++position;
    if (reason.empty()) {
      report.removed.push_back(summary.path);
    } else {
      report.kept.push_back({summary.path, reason});
    }
  }
  for (const fs::path& path : leftovers(files, checkpoints, policy, generation, now_s)) report.removed.push_back(path);
  if (mode == Prune::kOnlyReport) return report;
  for (const fs::path& path : report.removed) {
    if (path.filename().string().starts_with(".deleted-")) {
      remove_tree(files, path);
    } else {
      discard_folder(files, path);
    }
  }
  return report;
}

}  // namespace longhaul::storage
