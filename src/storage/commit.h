// Commit protocol: how a checkpoint comes to be on disk, whole or not at all (reliability specification, docs/formats/checkpoint.md).
//
//   CheckpointWriter writer(files, run / "checkpoints", step, generation);      // coordinator: step-000000012.tmp-3/
//   FileReport report = write_checkpoint_file(files, writer.folder(), "rank-00000.safetensors", shards);   // every writer
//   writer.add(report);                                                         // coordinator gathers the reports
//   writer.commit(manifest);                                                    // step-000000012/, then `latest`
//
// Every file is synced before it is reported; the manifest comes last; one rename of the folder makes the checkpoint exist.
// Any failure throws and leaves the earlier checkpoints as they were: exit code 73 from the disk, 66 when the reports do not
// make up the tensors, 76 when a later generation has committed meanwhile. A failed sync loses the file: nothing is retried,
// the next save writes new files. One thread per object; writers of different files may run at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/file_system.h"
#include "storage/manifest.h"

namespace longhaul::storage {

inline constexpr const char* kLatestName = "latest";

// Names inside the folder of checkpoints:
//   step-000000012              a checkpoint          step-000000012.tmp-3         being written by generation 3
//   step-000000012.replaced-3   the one that generation 3's save of the same step displaced, until that is on the disk
//   .deleted-…                  being removed         step-000000012.lease-NAME, step-000000012.keep   see catalog.h
struct CheckpointName {
  enum class Kind { kCommitted, kReplaced, kTemporary };
  Kind kind = Kind::kCommitted;
  int64_t step = 0;
  int64_t generation = 0;  // of kReplaced and kTemporary
};
std::string step_name(int64_t step);  // "step-000000012"
std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

// A rectangle of a logical tensor, with its row-major bytes.
struct ShardSource {
  std::string tensor;
  std::vector<int64_t> shape;  // global
  DType dtype = DType::kF32;
  std::string role;
  std::vector<int64_t> offset, length;
  std::span<const std::byte> data;
};

// The key of a rectangle in its file: the tensor's own name when it is whole, so that anyone's reader finds it, else
// "name[0:128,64:128]".
std::string shard_key(const std::string& tensor, std::span<const int64_t> shape, std::span<const int64_t> offset,
                      std::span<const int64_t> length);

FileReport write_checkpoint_file(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                                 std::span<const ShardSource> shards, int64_t alignment = 4096);

class CheckpointWriter {
 public:
  CheckpointWriter(FileSystem& files, std::filesystem::path checkpoints, int64_t step, int64_t generation);
  ~CheckpointWriter();  // removes what was not committed, as far as the disk lets it
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const std::filesystem::path& folder() const { return temporary_; }  // writers put their files here
  void add(FileReport report);
  // Step, generation, files and tensors of `manifest` are filled in here. Returns the checkpoint's folder.
  std::filesystem::path commit(Manifest manifest);

 private:
  void gather(Manifest& manifest) const;
  void write_manifest(const Manifest& manifest);
  void refuse_if_superseded() const;

  FileSystem& files_;
  std::filesystem::path checkpoints_, temporary_;
  int64_t step_, generation_;
  std::vector<FileReport> reports_;
  bool committed_ = false;
};

// Moves the folder out of the way in one rename, then removes it: a half-removed checkpoint is never taken for a checkpoint.
void discard_folder(FileSystem& files, const std::filesystem::path& folder);

Manifest read_manifest(const FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace longhaul::storage
