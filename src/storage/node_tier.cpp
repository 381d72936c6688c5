#include "storage/node_tier.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"
#include "storage/manifest.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRunPrefix = "run-";

std::string name_of_run(const std::string& run) { return fmt::format("{}{:016x}", kRunPrefix, xxh3(run)); }

// The tier may be a folder that others use too: /dev/shm itself.
bool is_name_of_run(std::string_view name) {
  return name.starts_with(kRunPrefix) && name.size() == kRunPrefix.size() + 16 &&
         name.find_first_not_of("0123456789abcdef", kRunPrefix.size()) == std::string_view::npos;
}

}  // namespace

SavedMoment moment_of(const CheckpointName& name) { return {name.generation.value_or(1), name.step}; }

NodeTier::NodeTier(FileSystem& files, fs::path tier, const std::string& run)
    : files_(files), tier_(std::move(tier)), run_(tier_ / name_of_run(run)) {}

fs::path NodeTier::folder_of(const SavedMoment& moment) const {
  return run_ / CheckpointName{CheckpointName::Kind::kCommitted, moment.step, moment.generation}.text();
}

std::vector<NodeTier::Held> NodeTier::held() const {
  std::vector<Held> found;
  for (const FolderEntry& entry : files_.list(run_)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (!entry.is_folder || !name || name->kind != CheckpointName::Kind::kCommitted) continue;
    Held held{.moment = moment_of(*name)};
    const fs::path folder = run_ / entry.name;
    try {
      for (const FolderEntry& file : files_.list(folder)) {
        if (file.name == kManifestName)
          held.manifest =
              read_small_file(files_, folder / file.name, ExitCode::kCheckpoint, kManifestLimitBytes);
        else if (is_plain_file_name(file.name))
          held.files[file.name] = files_.open(folder / file.name, ExitCode::kCheckpoint)->size();
      }
    } catch (const Error&) {
      continue;  // somebody removed it meanwhile, or put something else in its place
    }
    found.push_back(std::move(held));
  }
  std::ranges::sort(found, std::ranges::greater(), &Held::moment);
  return found;
}

int64_t NodeTier::newest_generation() const {
  int64_t newest = 0;
  for (const FolderEntry& entry : files_.list(run_)) {
    if (const auto name = parse_checkpoint_name(entry.name))
      newest = std::max(newest, moment_of(*name).generation);
  }
  return newest;
}

fs::path NodeTier::begin(const SavedMoment& moment) {
  const fs::path folder = folder_of(moment);
  files_.make_folders(folder);
  return folder;
}

void NodeTier::put_manifest(const SavedMoment& moment, const std::string& text) {
  const fs::path folder = begin(moment), draft = folder / ".manifest.tmp";
  write_synced(files_, draft, text);
  files_.rename(draft, folder / kManifestName);
}

void NodeTier::copy(const SavedMoment& moment, NodeTier& to) const {
  const fs::path from = folder_of(moment), into = to.begin(moment);
  const std::string manifest =
      read_small_file(files_, from / kManifestName, ExitCode::kCheckpoint, kManifestLimitBytes);
  for (const FolderEntry& entry : files_.list(from)) {
    if (is_plain_file_name(entry.name) && entry.name != kManifestName)
      copy_file(files_, from / entry.name, into / entry.name);
  }
  files_.sync_folder(into);
  to.put_manifest(moment, manifest);
  files_.sync_folder(into);
}

void NodeTier::remove_unfinished(const SavedMoment& moment) {
  if (!files_.exists(folder_of(moment) / kManifestName)) remove_tree(files_, folder_of(moment));
}

void NodeTier::remove_before(const SavedMoment& moment) {
  for (const FolderEntry& entry : files_.list(run_)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (entry.is_folder && name && moment_of(*name) < moment) remove_tree(files_, run_ / entry.name);
  }
}

void NodeTier::remove_run() { remove_tree(files_, run_); }

void NodeTier::remove_other_runs() {
  for (const FolderEntry& entry : files_.list(tier_)) {
    if (entry.is_folder && is_name_of_run(entry.name) && entry.name != run_.filename())
      remove_tree(files_, tier_ / entry.name);
  }
}

}  // namespace longhaul::storage
