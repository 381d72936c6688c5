#include "storage/commit.h"

#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "base/process/fault_point.h"
#include "base/text/text.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

namespace fs = std::filesystem;

std::string shard_key(const std::string& tensor, std::span<const int64_t> shape,
                      std::span<const int64_t> offset, std::span<const int64_t> length) {
  if (std::equal(shape.begin(), shape.end(), length.begin(), length.end())) return tensor;
  std::string key = tensor + "[";
  for (size_t d = 0; d < offset.size(); ++d) {
    key += fmt::format("{}{}:{}", d == 0 ? "" : ",", offset[d], offset[d] + length[d]);
  }
  return key + "]";
}

FileReport write_checkpoint_file(FileSystem& files, const fs::path& folder, const std::string& name,
                                 std::span<const ShardSource> shards, int64_t alignment) {
  return write_checkpoint_file(
      files, folder, name, shards, [](const ShardSource& shard) { return shard.data; }, alignment);
}

FileReport write_checkpoint_file(FileSystem& files, const fs::path& folder, const std::string& name,
                                 std::span<const ShardSource> shards, const ShardData& data_of,
                                 int64_t alignment) {
  LONGHAUL_ASSERT(is_plain_file_name(name), "file name '{}'", name);
  FileReport report{.file = {.name = name}};
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, const ShardSource*> by_key;
  for (const ShardSource& shard : shards) {
    LONGHAUL_ASSERT(shard.offset.size() == shard.shape.size() && shard.length.size() == shard.shape.size(),
                    "tensor '{}'", shard.tensor);
    const std::string key = shard_key(shard.tensor, shard.shape, shard.offset, shard.length);
    LONGHAUL_ASSERT(by_key.emplace(key, &shard).second, "'{}' is given twice", key);
    tensors.push_back({.name = key, .dtype = shard.dtype, .shape = shard.length});
    report.shards.push_back(
        {.tensor = shard.tensor,
         .shape = shard.shape,
         .dtype = shard.dtype,
         .role = shard.role,
         .shard = {.file = name, .key = key, .offset = shard.offset, .length = shard.length}});
  }
  SafetensorsWriter writer(files, folder / name, std::move(tensors), {{"format", "longhaul-checkpoint"}},
                           alignment);
  for (const TensorInfo& tensor : writer.tensors()) {
    const std::span<const std::byte> data = data_of(*by_key.at(tensor.name));
    LONGHAUL_ASSERT(tensor.bytes() == static_cast<int64_t>(data.size()), "'{}' comes with {} bytes",
                    tensor.name, data.size());
    writer.write(data);
  }
  const WrittenFile written = writer.finish();
  report.file.bytes = written.bytes;
  report.file.sha256 = written.sha256;
  for (ReportedShard& shard : report.shards) shard.shard.crc32c = written.crc32c.at(shard.shard.key);
  return report;
}

void add_reports(Manifest& manifest, std::span<const FileReport> reports, const std::string& where) {
  manifest.files.clear();
  manifest.tensors.clear();
  for (const FileReport& report : reports) {
    manifest.files.push_back(report.file);
    for (const ReportedShard& reported : report.shards) {
      auto [at, added] = manifest.tensors.try_emplace(
          reported.tensor,
          ManifestTensor{.shape = reported.shape, .dtype = reported.dtype, .role = reported.role});
      ManifestTensor& tensor = at->second;
      if (!added && (tensor.shape != reported.shape || tensor.dtype != reported.dtype ||
                     tensor.role != reported.role)) {
        throw Error(
            {.code = ExitCode::kCheckpoint,
             .what = "writers disagree about a tensor",
             .expected = fmt::format("{} [{}]", name_of(tensor.dtype), fmt::join(tensor.shape, ", ")),
             .found = fmt::format("{} [{}]", name_of(reported.dtype), fmt::join(reported.shape, ", ")),
             .where = fmt::format("{}, tensor '{}'", report.file.name, brief(reported.tensor))});
      }
      tensor.shards.push_back(reported.shard);
    }
  }
  check_consistent(manifest, where);
}

CheckpointWriter::CheckpointWriter(FileSystem& files, fs::path checkpoints, int64_t step, int64_t generation)
    : files_(files), checkpoints_(std::move(checkpoints)), step_(step), generation_(generation) {
  LONGHAUL_ASSERT(step >= 0 && generation >= 0, "step {} generation {}", step, generation);
  make_folders_durably(files_, checkpoints_);
  temporary_ = checkpoints_ / CheckpointName{CheckpointName::Kind::kTemporary, step, generation}.text();
  remove_tree(files_, temporary_);  // the files of a save that failed
  files_.make_folders(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (!committed_.empty()) return;
  try {
    // Needs no rename and no sync, because nobody takes this name for a checkpoint.
    remove_tree(files_, temporary_);
  } catch (const std::exception& error) {
    log_warning("could not remove an unfinished checkpoint (harmless, it is cleaned up later): {}",
                error.what());
  }
}

void CheckpointWriter::add(FileReport report) { reports_.push_back(std::move(report)); }

// A convenience, not the safeguard: this process cannot remove anything of the later start because their
// names differ.
void CheckpointWriter::refuse_if_superseded() const {
  const int64_t newest = newest_committed_generation(files_, checkpoints_);
  if (newest <= generation_) return;
  throw Error({.code = ExitCode::kFenced,
               .what = "a later start of this run has saved checkpoints: this process must not",
               .expected = fmt::format("no generation above {}", generation_),
               .found = fmt::format("generation {}", newest),
               .where = checkpoints_.string()});
}

// Only this process makes names of its generation, so nobody takes the name before it is used. It is a second
// attempt if the first one got its name, but the disk failed to confirm that the name is durable.
fs::path CheckpointWriter::unused_name() const {
  CheckpointName name{CheckpointName::Kind::kCommitted, step_, generation_};
  while (files_.exists(checkpoints_ / name.text())) ++name.attempt;
  return checkpoints_ / name.text();
}

fs::path CheckpointWriter::commit(Manifest manifest) {
  LONGHAUL_ASSERT(committed_.empty(), "{} is committed already", temporary_.string());
  manifest.step = step_;
  manifest.generation = generation_;
  if (manifest.wall_time.empty()) manifest.wall_time = wall_time_text(wall_time_s());
  add_reports(manifest, reports_, temporary_.string());
  refuse_if_superseded();
  const fs::path target = unused_name();
  const fs::path draft = temporary_ / "manifest.tmp";
  write_synced(files_, draft, to_text(manifest));
  files_.rename(draft, temporary_ / kManifestName);
  // Done here, where a full disk still fails the save as a whole; point_latest_here() then only renames it.
  write_synced(files_, temporary_ / kLatestName, target.filename().string() + "\n");
  files_.sync_folder(temporary_);
  fault_point("checkpoint.before_rename", step_);
  files_.rename(temporary_, target);
  fault_point("checkpoint.after_rename", step_);
  committed_ = target;
  files_.sync_folder(checkpoints_);
  return target;
}

void CheckpointWriter::point_latest_here() {
  LONGHAUL_ASSERT(!committed_.empty(), "{} is not committed", temporary_.string());
  files_.rename(committed_ / kLatestName, checkpoints_ / kLatestName);
  files_.sync_folder(checkpoints_);
}

bool discard_folder(FileSystem& files, const fs::path& folder, const std::function<bool()>& wanted) {
  const fs::path parent = folder.parent_path();
  const fs::path doomed = parent / (std::string(kDeletedPrefix) + folder.filename().string());
  remove_tree(files, doomed);  // of an earlier attempt
  try {
    files.rename(folder, doomed);
  } catch (const Error&) {
    if (files.exists(folder)) throw;
    return true;
  }
  if (wanted && wanted()) {
    files.rename(doomed, folder);
    files.sync_folder(parent);
    return false;
  }
  files.sync_folder(parent);  // before the first file goes
  remove_tree(files, doomed);
  return true;
}

Manifest read_manifest(const FileSystem& files, const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestName;
  return parse_manifest(read_small_file(files, path, ExitCode::kCheckpoint, kManifestLimitBytes),
                        path.string());
}

}  // namespace longhaul::storage
