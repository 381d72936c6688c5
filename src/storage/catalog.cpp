#include "storage/catalog.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "base/text.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLeaseInfix = ".lease-", kKeepSuffix = ".keep";

fs::path beside(const fs::path& checkpoint, const std::string& suffix) {
  fs::path path = checkpoint;
  path += suffix;
  return path;
}

// `latest` as it stands; empty when there is none or it does not name a checkpoint.
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
    return std::tuple(s.usable(), s.generation, s.name.step, s.name.kind == CheckpointName::Kind::kCommitted, s.name.generation);
  };
  return rank(a) > rank(b);
}

}  // namespace

std::vector<CheckpointSummary> list_checkpoints(const FileSystem& files, const fs::path& checkpoints, const CatalogOptions& options) {
  const std::string latest = latest_name(files, checkpoints);
  const std::vector<FolderEntry> entries = files.list(checkpoints);
  std::vector<CheckpointSummary> found;
  for (const FolderEntry& entry : entries) {
    const auto name = parse_checkpoint_name(entry.name);
    if (!entry.is_folder || !name || name->kind == CheckpointName::Kind::kTemporary) continue;
    CheckpointSummary summary{.path = checkpoints / entry.name, .name = *name};
    summary.is_latest = entry.name == latest;
    for (const FolderEntry& other : entries) {
      if (other.name == entry.name + std::string(kKeepSuffix)) summary.is_protected = true;
      if (other.name.starts_with(entry.name + std::string(kLeaseInfix)) &&
          files.modified_s(checkpoints / other.name) > options.now_s - options.lease_expires_s) {
        summary.is_leased = true;
      }
    }
    try {
      const Checkpoint checkpoint = Checkpoint::open(files, summary.path);
      const Manifest& manifest = checkpoint.manifest();
      summary.run_id = manifest.run_id;
      summary.wall_time = manifest.wall_time;
      summary.generation = manifest.generation;
      summary.bytes = manifest.bytes();
      summary.tensors = static_cast<int64_t>(manifest.tensors.size());
      summary.files = static_cast<int64_t>(manifest.files.size());
      if (manifest.step != name->step) {
        summary.defect = fmt::format("its manifest is of step {}, not {}", manifest.step, name->step);
      }
    } catch (const Error& error) {
      summary.defect = error.what();
    }
    found.push_back(std::move(summary));
  }
  std::sort(found.begin(), found.end(), newer);
  return found;
}

Search find_newest_valid(const FileSystem& files, const fs::path& checkpoints, Depth depth) {
  Search search;
  for (const CheckpointSummary& summary : list_checkpoints(files, checkpoints, {})) {
    if (!summary.usable()) {
      search.rejected.push_back({summary.path, summary.defect});
      continue;
    }
    if (search.newest) continue;
    try {
      Checkpoint checkpoint = Checkpoint::open(files, summary.path);
      if (depth == Depth::kContents) checkpoint.verify();
      search.newest.emplace(std::move(checkpoint));
    } catch (const Error& error) {
      search.rejected.push_back({summary.path, error.what()});
    }
  }
  return search;
}

NamedCheckpoints resolve(const FileSystem& files, const fs::path& named) {
  const fs::path path = named.has_filename() ? named : named.parent_path();  // "runs/a/"
  std::string found = "no such file or folder";
  if (files.is_folder(path)) {
    if (files.exists(path / kManifestName)) return {path, true};
    if (files.is_folder(path / "checkpoints")) return {path / "checkpoints", false};
    const auto entries = files.list(path);
    if (std::any_of(entries.begin(), entries.end(),
                    [](const FolderEntry& entry) { return entry.is_folder && parse_checkpoint_name(entry.name); })) {
      return {path, false};
    }
    found = "a folder without manifest.json and without checkpoints";
  } else if (files.exists(path)) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (path.filename() == kManifestName) return {folder, true};
    const std::string name = path.filename() == kLatestName ? latest_name(files, folder) : std::string();
    if (!name.empty()) return {folder / name, true};
    found = path.filename() == kLatestName ? "a file that names no checkpoint" : "a file";
  }
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "no checkpoint here",
               .expected = "a run folder, its checkpoints folder, one checkpoint in it, or its file 'latest'",
               .found = found,
               .where = path.string(),
               .hint = program_command("train RECIPE --run DIR") + " saves them in DIR/checkpoints"});
}

Checkpoint open_checkpoint(const FileSystem& files, const fs::path& named, Depth depth) {
  const auto [path, is_one] = resolve(files, named);
  if (is_one) {
    Checkpoint checkpoint = Checkpoint::open(files, path);
    if (depth == Depth::kContents) checkpoint.verify();
    return checkpoint;
  }
  Search search = find_newest_valid(files, path, depth);
  if (search.newest) {
    for (const Search::Rejected& rejected : search.rejected) log_warning("passed over {}: {}", rejected.path.string(), rejected.reason);
    return std::move(*search.newest);
  }
  std::string reasons;
  for (const Search::Rejected& rejected : search.rejected) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "\n", rejected.path.filename().string(), rejected.reason);
  }
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "no valid checkpoint in the folder",
               .expected = "at least one",
               .found = reasons.empty() ? "only unfinished ones" : reasons,
               .where = path.string()});
}

Lease::Lease(FileSystem& files, const fs::path& checkpoint, const std::string& holder)
    : files_(files), path_(beside(checkpoint, std::string(kLeaseInfix) + holder)) {
  LONGHAUL_ASSERT(is_plain_file_name(holder), "holder '{}'", holder);
  const std::string text = holder + "\n";
  const auto file = files_.create(path_);
  file->write(std::as_bytes(std::span(text.data(), text.size())));
  file->close();
}

Lease::~Lease() {
  try {
    files_.remove(path_);
  } catch (const std::exception& error) {
    log_warning("could not remove a lease (it expires by itself): {}", error.what());
  }
}

void protect(FileSystem& files, const fs::path& checkpoint) {
  replace_file(files, beside(checkpoint, std::string(kKeepSuffix)), "protected\n");
}

void unprotect(FileSystem& files, const fs::path& checkpoint) {
  files.remove(beside(checkpoint, std::string(kKeepSuffix)));
  files.sync_folder(checkpoint.parent_path());
}

}  // namespace longhaul::storage
