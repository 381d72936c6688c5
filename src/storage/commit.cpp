#include "storage/commit.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-", kTemporaryInfix = ".tmp-", kReplacedInfix = ".replaced-";

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// A new folder survives a crash only when the folder that holds it was synced, up to the first one that existed before.
void make_folders_durably(FileSystem& files, const fs::path& folder) {
  if (folder.empty() || files.exists(folder)) return;
  make_folders_durably(files, folder.parent_path());
  files.make_folders(folder);
  files.sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
}

}  // namespace

std::string step_name(int64_t step) { return fmt::format("{}{:09}", kStepPrefix, step); }

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  CheckpointName result;
  std::string_view number = name.substr(kStepPrefix.size());
  const size_t dot = number.find('.');
  if (dot != std::string_view::npos) {
    std::string_view tail = number.substr(dot);
    number = number.substr(0, dot);
    if (tail.starts_with(kTemporaryInfix)) {
      result.kind = CheckpointName::Kind::kTemporary;
      tail.remove_prefix(kTemporaryInfix.size());
    } else if (tail.starts_with(kReplacedInfix)) {
      result.kind = CheckpointName::Kind::kReplaced;
      tail.remove_prefix(kReplacedInfix.size());
    } else {
      return std::nullopt;
    }
    const auto generation = whole_number(tail);
    if (!generation) return std::nullopt;
    result.generation = *generation;
  }
  const auto step = whole_number(number);
  if (!step || number.size() < 9) return std::nullopt;
  result.step = *step;
  return result;
}

std::string shard_key(const std::string& tensor, std::span<const int64_t> shape, std::span<const int64_t> offset,
                      std::span<const int64_t> length) {
  if (std::equal(shape.begin(), shape.end(), length.begin(), length.end())) return tensor;
  std::string key = tensor + "[";
  for (size_t d = 0; d < offset.size(); ++d) {
    key += fmt::format("{}{}:{}", d == 0 ? "" : ",", offset[d], offset[d] + length[d]);
  }
  return key + "]";
}

FileReport write_checkpoint_file(FileSystem& files, const fs::path& folder, const std::string& name, std::span<const ShardSource> shards,
                                 int64_t alignment) {
  LONGHAUL_ASSERT(is_plain_file_name(name), "file name '{}'", name);
  FileReport report{.file = {.name = name}};
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, const ShardSource*> by_key;
  for (const ShardSource& shard : shards) {
    LONGHAUL_ASSERT(shard.offset.size() == shard.shape.size() && shard.length.size() == shard.shape.size(), "tensor '{}'", shard.tensor);
    const std::string key = shard_key(shard.tensor, shard.shape, shard.offset, shard.length);
    LONGHAUL_ASSERT(tensor_bytes(shard.dtype, shard.length, key) == static_cast<int64_t>(shard.data.size()), "'{}' comes with {} bytes",
                    key, shard.data.size());
    LONGHAUL_ASSERT(by_key.emplace(key, &shard).second, "'{}' is given twice", key);
    tensors.push_back({.name = key, .dtype = shard.dtype, .shape = shard.length});
    report.shards.push_back({.tensor = shard.tensor,
                             .shape = shard.shape,
                             .dtype = shard.dtype,
                             .role = shard.role,
                             .shard = {.file = name, .key = key, .offset = shard.offset, .length = shard.length}});
  }
  SafetensorsWriter writer(files, folder / name, std::move(tensors), {{"format", "longhaul-checkpoint"}}, alignment);
  for (const TensorInfo& tensor : writer.tensors()) writer.write(by_key.at(tensor.name)->data);
  const WrittenFile written = writer.finish();
  report.file.bytes = written.bytes;
  report.file.sha256 = written.sha256;
  for (ReportedShard& shard : report.shards) shard.shard.crc32c = written.crc32c.at(shard.shard.key);
  return report;
}

CheckpointWriter::CheckpointWriter(FileSystem& files, fs::path checkpoints, int64_t step, int64_t generation)
    : files_(files), checkpoints_(std::move(checkpoints)), step_(step), generation_(generation) {
  LONGHAUL_ASSERT(step >= 0 && generation >= 0, "step {} generation {}", step, generation);
  make_folders_durably(files_, checkpoints_);
  temporary_ = checkpoints_ / fmt::format("{}{}{}", step_name(step), kTemporaryInfix, generation);
  remove_tree(files_, temporary_);  // of a save that failed: its files are lost
  files_.make_folders(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (committed_) return;
  try {
    remove_tree(files_, temporary_);  // needs no rename and no sync: nobody takes this name for a checkpoint
  } catch (const std::exception& error) {
    log_warning("could not remove an unfinished checkpoint (harmless, it is cleaned up later): {}", error.what());
  }
}

void CheckpointWriter::add(FileReport report) { reports_.push_back(std::move(report)); }

void CheckpointWriter::gather(Manifest& manifest) const {
  manifest.step = step_;
  manifest.generation = generation_;
  if (manifest.wall_time.empty()) manifest.wall_time = wall_time_text(wall_time_s());
  manifest.files.clear();
  manifest.tensors.clear();
  for (const FileReport& report : reports_) {
    manifest.files.push_back(report.file);
    for (const ReportedShard& reported : report.shards) {
      auto [at, added] = manifest.tensors.try_emplace(
          reported.tensor, ManifestTensor{.shape = reported.shape, .dtype = reported.dtype, .role = reported.role});
      ManifestTensor& tensor = at->second;
      if (!added && (tensor.shape != reported.shape || tensor.dtype != reported.dtype || tensor.role != reported.role)) {
        throw Error({.code = ExitCode::kCheckpoint,
                     .what = "writers disagree about a tensor",
                     .expected = fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", ")),
                     .found = fmt::format("{} [{}]", name_of(reported.dtype), fmt::join(reported.shape, ", ")),
                     .where = fmt::format("{}, tensor '{}'", report.file.name, printable(reported.tensor))});
      }
      tensor.shards.push_back(reported.shard);
    }
  }
  check_consistent(manifest, temporary_.string());
}

void CheckpointWriter::write_manifest(const Manifest& manifest) {
  const std::string text = to_text(manifest);
  const fs::path draft = temporary_ / "manifest.tmp";
  const auto file = files_.create(draft);
  file->write(std::as_bytes(std::span(text.data(), text.size())));
  file->sync();
  file->close();
  files_.rename(draft, temporary_ / kManifestName);
  files_.sync_folder(temporary_);
}

void CheckpointWriter::refuse_if_superseded() const {
  int64_t newest = -1;
  for (const FolderEntry& entry : files_.list(checkpoints_)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (!name || name->kind != CheckpointName::Kind::kCommitted) continue;
    try {
      newest = std::max(newest, read_manifest(files_, checkpoints_ / entry.name).generation);
    } catch (const Error&) {
      continue;  // a broken checkpoint proves nothing
    }
  }
  if (newest > generation_) {
    throw Error({.code = ExitCode::kFenced,
                 .what = "a later start of this run has saved checkpoints: this process must not",
                 .expected = fmt::format("no generation above {}", generation_),
                 .found = fmt::format("generation {}", newest),
                 .where = checkpoints_.string()});
  }
}

fs::path CheckpointWriter::commit(Manifest manifest) {
  LONGHAUL_ASSERT(!committed_, "{} is committed already", temporary_.string());
  gather(manifest);
  refuse_if_superseded();
  write_manifest(manifest);
  const fs::path target = checkpoints_ / step_name(step_);
  fs::path displaced;
  if (files_.exists(target)) {
    // The same step saved again, after a rollback. Its predecessor stays readable under another name until we are durable.
    displaced = checkpoints_ / fmt::format("{}{}{}", step_name(step_), kReplacedInfix, generation_);
    if (files_.exists(displaced)) discard_folder(files_, displaced);
    files_.rename(target, displaced);
  }
  files_.rename(temporary_, target);
  committed_ = true;
  files_.sync_folder(checkpoints_);
  replace_file(files_, checkpoints_ / kLatestName, step_name(step_) + "\n");
  if (!displaced.empty()) discard_folder(files_, displaced);
  return target;
}

void discard_folder(FileSystem& files, const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  const fs::path doomed = parent / (".deleted-" + folder.filename().string());
  remove_tree(files, doomed);  // of an earlier attempt
  files.rename(folder, doomed);
  files.sync_folder(parent);  // before the first file goes
  remove_tree(files, doomed);
}

Manifest read_manifest(const FileSystem& files, const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestName;
  return parse_manifest(read_small_file(files, path, ExitCode::kCheckpoint, kManifestLimitBytes), path.string());
}

}  // namespace longhaul::storage
