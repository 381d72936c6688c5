#include "storage/catalog.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "base/machine/disk_errors.h"
#include "base/text/text.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kKeepSuffix = ".keep";

// `latest` as it is; empty when there is none or it does not name a checkpoint.
std::string latest_name(const FileSystem& files, const fs::path& checkpoints) {
  if (!files.exists(checkpoints / kLatestName)) return {};
  try {
    std::string text = read_small_file(files, checkpoints / kLatestName, ExitCode::kCheckpoint, 256);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return parse_checkpoint_name(text) ? text : std::string();
  } catch (const Error&) {
    return {};
  }
}

bool newer(const CheckpointSummary& a, const CheckpointSummary& b) {
  const auto rank = [](const CheckpointSummary& s) {
    return std::tuple(s.usable(), s.generation, s.name.step, s.name.kind == CheckpointName::Kind::kCommitted,
                      s.name.attempt);
  };
  return rank(a) > rank(b);
}

std::string defect_of(const CheckpointName& name, const Manifest& manifest) {
  if (manifest.step != name.step)
    return fmt::format("its manifest is of step {}, not {}", manifest.step, name.step);
  if (manifest.generation != name.generation.value_or(manifest.generation)) {
    return fmt::format("its manifest is of generation {}, not {}", manifest.generation, *name.generation);
  }
  return {};
}

CheckpointSummary summary_of(const FileSystem& files, const fs::path& path, const CheckpointName& name,
                             std::string_view role) {
  CheckpointSummary summary{.path = path, .name = name, .generation = name.generation.value_or(0)};
  try {
    const Checkpoint checkpoint = Checkpoint::open(files, path, role);
    const Manifest& manifest = checkpoint.manifest();
    summary.run_id = manifest.run_id;
    summary.wall_time = manifest.wall_time;
    summary.generation = manifest.generation;
    summary.bytes = manifest.bytes();
    summary.tensors = static_cast<int64_t>(manifest.tensors.size());
    summary.files = static_cast<int64_t>(manifest.files.size());
    summary.defect = defect_of(name, manifest);
  } catch (const Error& error) {
    if (says_too_many_open_files(error)) throw;
    summary.defect = error.what();
  }
  return summary;
}

// The newest of all, or of one step; empty: there is none.
fs::path newest_path(const FileSystem& files, const fs::path& checkpoints, std::optional<int64_t> step) {
  for (const CheckpointSummary& summary : list_checkpoints(files, checkpoints)) {
    if (summary.name.step == step.value_or(summary.name.step)) return summary.path;
  }
  return {};
}

Search search_once(const FileSystem& files, const std::vector<CheckpointSummary>& summaries, Depth depth,
                   std::string_view role) {
  Search search;
  for (const CheckpointSummary& summary : summaries) {
    if (!summary.usable()) {
      search.rejected.push_back({summary.path, summary.defect});
      continue;
    }
    if (search.newest) continue;
    try {
      Checkpoint checkpoint = Checkpoint::open(files, summary.path, role);
      if (depth == Depth::kContents) checkpoint.verify();
      search.newest.emplace(std::move(checkpoint));
    } catch (const Error& error) {
      if (says_too_many_open_files(error)) throw;
      search.rejected.push_back({summary.path, error.what()});
    }
  }
  return search;
}

}  // namespace

std::vector<std::string> committed_names(const FileSystem& files, const fs::path& checkpoints) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : files.list(checkpoints)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (name && name->kind != CheckpointName::Kind::kTemporary) names.push_back(entry.name);
  }
  return names;
}

std::vector<CheckpointSummary> list_checkpoints(const FileSystem& files, const fs::path& checkpoints,
                                                std::string_view role) {
  const std::string latest = latest_name(files, checkpoints);
  const std::vector<FolderEntry> entries = files.list(checkpoints);
  std::vector<CheckpointSummary> found;
  for (const FolderEntry& entry : entries) {
    const auto name = parse_checkpoint_name(entry.name);
    if (!entry.is_folder || !name || name->kind == CheckpointName::Kind::kTemporary) continue;
    CheckpointSummary summary = summary_of(files, checkpoints / entry.name, *name, role);
    if (!summary.usable() && !files.exists(summary.path)) continue;
    summary.is_latest = entry.name == latest;
    const std::string keep = entry.name + std::string(kKeepSuffix);
    summary.is_protected = std::any_of(entries.begin(), entries.end(),
                                       [&](const FolderEntry& other) { return other.name == keep; });
    found.push_back(std::move(summary));
  }
  std::sort(found.begin(), found.end(), newer);
  return found;
}

Search find_newest_valid(const FileSystem& files, const fs::path& checkpoints, Depth depth,
                         std::string_view role) {
  std::vector<std::string> names = committed_names(files, checkpoints);
  for (;;) {
    Search search = search_once(files, list_checkpoints(files, checkpoints, role), depth, role);
    if (search.newest) return search;
    // A checkpoint may have been pruned while it was read; then a newer one exists. Names are never used
    // twice: names that are there before and after have been there all the time.
    std::vector<std::string> now = committed_names(files, checkpoints);
    if (now == names) return search;
    names = std::move(now);
  }
}

NamedCheckpoints resolve(const FileSystem& files, const fs::path& named) {
  const fs::path path = named.has_filename() ? named : named.parent_path();  // "runs/a/"
  std::string found = "no such file or folder";
  if (files.is_folder(path)) {
    if (files.exists(path / kManifestName)) return {path, true};
    if (files.is_folder(path / "checkpoints")) return {path / "checkpoints", false};
    const auto entries = files.list(path);
    if (std::any_of(entries.begin(), entries.end(), [](const FolderEntry& entry) {
          return entry.is_folder && parse_checkpoint_name(entry.name);
        })) {
      return {path, false};
    }
    found = "a folder without manifest.json and without checkpoints";
  } else {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    const bool there = files.exists(path);
    if (there && path.filename() == kManifestName) return {folder, true};
    const auto name = parse_checkpoint_name(path.filename().string());
    const bool of_a_step = name && name->kind == CheckpointName::Kind::kCommitted && !name->generation;
    if (of_a_step || path.filename() == kLatestName) {
      const fs::path newest =
          newest_path(files, folder, of_a_step ? std::optional(name->step) : std::nullopt);
      if (!newest.empty()) return {newest, true};
    }
    if (there) found = "a file";
  }
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "no checkpoint here",
               .expected = "a run folder, its checkpoints folder, one checkpoint in it, or its file 'latest'",
               .found = found,
               .where = path.string(),
               .hint = program_command("train RECIPE --run DIR") + " saves them in DIR/checkpoints"});
}

Checkpoint open_checkpoint(const FileSystem& files, const fs::path& named, Depth depth,
                           std::string_view role) {
  const auto [path, is_one] = resolve(files, named);
  if (is_one) {
    Checkpoint checkpoint = Checkpoint::open(files, path, role);
    if (depth == Depth::kContents) checkpoint.verify();
    return checkpoint;
  }
  Search search = find_newest_valid(files, path, depth, role);
  if (search.newest) {
    for (const Search::Rejected& rejected : search.rejected)
      log_warning("passed over {}: {}", rejected.path.string(), rejected.reason);
    return std::move(*search.newest);
  }
  std::string reasons;
  for (const Search::Rejected& rejected : search.rejected) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "\n", rejected.path.filename().string(),
                           rejected.reason);
  }
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "no valid checkpoint in the folder",
               .expected = "at least one",
               .found = reasons.empty() ? "only unfinished ones" : reasons,
               .where = path.string(),
               .hint = program_command("checkpoint verify RUN") + " says which of a run are whole"});
}

}  // namespace longhaul::storage
