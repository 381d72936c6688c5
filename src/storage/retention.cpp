#include "storage/retention.h"

#include <algorithm>

#include "base/clock.h"
#include "base/machine/disk_errors.h"
#include "storage/lease.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

struct Plan {
  std::vector<fs::path> newer;  // those newer than the first of `removed`, in order as far as it is known
  PruneReport report;
};

// The reason why a usable checkpoint stays; empty: it may be removed. `position` counts from the newest.
std::string reason_to_keep(const CheckpointSummary& summary, bool superseded, int64_t position,
                           const RetentionPolicy& policy, int64_t generation, const Leases& leases) {
  if (summary.generation > generation) return "of a later start of the run";
  if (summary.is_protected) return "protected";
  if (summary.is_latest) return "latest points to it";
  if (!superseded && position < policy.keep_last) return fmt::format("among the newest {}", policy.keep_last);
  if (!superseded && policy.keep_every > 0 && summary.name.step % policy.keep_every == 0) {
    return fmt::format("its step is a multiple of {}", policy.keep_every);
  }
  const auto reader = leases.readers.find(summary.path.filename().string());
  return reader == leases.readers.end() ? "" : reader->second;
}

// `damaged`: path → the damage found when it was read; these do not count.
Plan plan_of(const std::vector<CheckpointSummary>& summaries, const std::map<fs::path, std::string>& damaged,
             const RetentionPolicy& policy, int64_t generation, const Leases& leases) {
  Plan plan;
  std::set<int64_t> steps;
  int64_t position = 0;
  for (const CheckpointSummary& summary : summaries) {
    if (!summary.usable()) {
      plan.report.kept.push_back(
          {summary.path, "it is not valid; remove it by hand when nobody needs to look into it"});
      continue;
    }
    if (const auto found = damaged.find(summary.path); found != damaged.end()) {
      plan.report.kept.push_back({summary.path, "damaged: " + found->second});
      continue;
    }
    // The step was saved again since, after a rollback for example.
    const bool superseded = !steps.insert(summary.name.step).second;
    const std::string reason = reason_to_keep(summary, superseded, position, policy, generation, leases);
    position += superseded ? 0 : 1;
    if (plan.report.removed.empty() && !reason.empty()) plan.newer.push_back(summary.path);
    if (reason.empty()) {
      plan.report.removed.push_back(summary.path);
    } else {
      plan.report.kept.push_back({summary.path, reason});
    }
  }
  return plan;
}

// The newest of the checkpoints that are newer than those to be removed, because it can be used longest;
// none: one of them is known to be whole.
std::optional<fs::path> unread_of(const Plan& plan, const ReadBack& known) {
  if (plan.report.removed.empty()) return std::nullopt;
  if (std::any_of(plan.newer.begin(), plan.newer.end(),
                  [&](const fs::path& path) { return known.whole.contains(path); }))
    return std::nullopt;
  LONGHAUL_ASSERT(!plan.newer.empty(), "nothing is newer than {}", plan.report.removed.front().string());
  return plan.newer.front();
}

// What is removed, once a newer checkpoint is known to be whole.
PruneReport verified_plan(const FileSystem& files, const fs::path& checkpoints, const RetentionPolicy& policy,
                          int64_t generation, const Leases& leases, ReadBack& known) {
  const std::vector<CheckpointSummary> summaries = list_checkpoints(files, checkpoints);
  for (;;) {
    Plan plan = plan_of(summaries, known.damaged, policy, generation, leases);
    const auto unread = unread_of(plan, known);
    if (!unread) return std::move(plan.report);
    try {
      Checkpoint::open(files, *unread).verify();
      known.whole.insert(*unread);
    } catch (const Error& error) {
      if (says_too_many_open_files(error)) throw;
      known.damaged.emplace(*unread, error.what());
    }
  }
}

bool is_older(const FileSystem& files, const fs::path& path, double than_s) {
  try {
    return files.modified_s(path) < than_s;
  } catch (const Error&) {
    if (files.exists(path)) throw;
    return false;  // its owner has just removed it, or given it its name
  }
}

// Unfinished folders of earlier generations, once they are old, and what an interrupted removal left.
std::vector<fs::path> leftovers(const FileSystem& files, const fs::path& checkpoints,
                                const RetentionPolicy& policy, int64_t generation, double now_s) {
  std::vector<fs::path> found;
  for (const FolderEntry& entry : files.list(checkpoints)) {
    if (!entry.is_folder) continue;
    const fs::path path = checkpoints / entry.name;
    if (entry.name.starts_with(kDeletedPrefix)) found.push_back(path);
    const auto name = parse_checkpoint_name(entry.name);
    if (name && name->kind == CheckpointName::Kind::kTemporary && *name->generation < generation &&
        is_older(files, path, now_s - policy.orphans_after_s)) {
      found.push_back(path);
    }
  }
  return found;
}

}  // namespace

std::optional<fs::path> unread_before_pruning(const FileSystem& files, const fs::path& checkpoints,
                                              const RetentionPolicy& policy, int64_t generation,
                                              const ReadBack& known) {
  const Leases leases = leases_in(files, checkpoints, wall_time_s());
  return unread_of(plan_of(list_checkpoints(files, checkpoints), known.damaged, policy, generation, leases),
                   known);
}

PruneReport prune(FileSystem& files, const fs::path& checkpoints, const RetentionPolicy& policy,
                  int64_t generation, double now_s, ReadBack& known, Prune mode) {
  LONGHAUL_ASSERT(policy.keep_last >= 1, "keep_last {}", policy.keep_last);
  const Leases leases = leases_in(files, checkpoints, now_s);
  PruneReport report = verified_plan(files, checkpoints, policy, generation, leases, known);
  for (const fs::path& path : leftovers(files, checkpoints, policy, generation, now_s))
    report.removed.push_back(path);
  if (mode == Prune::kOnlyReport) return report;
  std::erase_if(report.removed, [&](const fs::path& path) {
    const std::string name = path.filename().string();
    if (name.starts_with(kDeletedPrefix)) {
      remove_tree(files, path);
      return false;
    }
    std::string reader;
    const bool gone = discard_folder(files, path, [&] {
      const Leases now = leases_in(files, checkpoints, now_s);
      if (const auto found = now.readers.find(name); found != now.readers.end()) reader = found->second;
      return !reader.empty();
    });
    if (!gone) report.kept.push_back({path, reader});
    return !gone;
  });
  for (const fs::path& path : leases.spent) files.remove(path);
  return report;
}

}  // namespace longhaul::storage
