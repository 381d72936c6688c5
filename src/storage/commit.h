// The commit protocol writes a checkpoint to disk completely or not at all (reliability specification,
// docs/formats/checkpoint.md).
//
//   // coordinator: step-000000012.tmp-3/
//   CheckpointWriter writer(files, run / "checkpoints", step, generation);
//   // every writer
//   FileReport report = write_checkpoint_file(files, writer.folder(), "rank-00000.safetensors", shards);
//   // coordinator gathers the reports
//   writer.add(report);
//   // step-000000012.g3/: it exists
//   writer.commit(manifest);
//   // a hint for people and scripts
//   writer.point_latest_here();
//
// Every file is synced before it is reported, and the manifest is written last. One rename of the folder, to
// a name that was never used before (checkpoint_name.h), makes the checkpoint exist. If commit() fails, it
// throws and leaves earlier checkpoints as they were: exit code 73 for errors of the disk, 66 when the
// reports do not add up to the tensors, 76 when a later generation has committed meanwhile. A failed sync
// loses the file: nothing is retried, and the next save writes new files. Each object is for one thread;
// writers of different files may run at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "storage/checkpoint_name.h"
#include "storage/file_system.h"
#include "storage/manifest.h"

namespace longhaul::storage {

// ShardSource: a rectangle of a logical tensor with its row-major bytes.
struct ShardSource {
  std::string tensor;
  std::vector<int64_t> shape;  // global
  DType dtype = DType::kF32;
  std::string role;
  std::vector<int64_t> offset, length;
  std::span<const std::byte> data;
};

// The key of a rectangle in its file: the tensor's own name if the rectangle is the whole tensor, so that
// other readers find it, else "name[0:128,64:128]".
std::string shard_key(const std::string& tensor, std::span<const int64_t> shape,
                      std::span<const int64_t> offset, std::span<const int64_t> length);

FileReport write_checkpoint_file(FileSystem& files, const std::filesystem::path& folder,
                                 const std::string& name, std::span<const ShardSource> shards,
                                 int64_t alignment = 4096);
// The same for shards without data: `data_of` returns the data of one shard after the other, valid until the
// next call.
using ShardData = std::function<std::span<const std::byte>(const ShardSource&)>;
FileReport write_checkpoint_file(FileSystem& files, const std::filesystem::path& folder,
                                 const std::string& name, std::span<const ShardSource> shards,
                                 const ShardData& data_of, int64_t alignment = 4096);

// Adds these files and tensors to a `manifest` without any. kCheckpoint where they do not add up to whole
// tensors; `where` is used in errors.
void add_reports(Manifest& manifest, std::span<const FileReport> reports, const std::string& where);

class CheckpointWriter {
 public:
  CheckpointWriter(FileSystem& files, std::filesystem::path checkpoints, int64_t step, int64_t generation);
  ~CheckpointWriter();  // removes what was not committed, as far as possible
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const std::filesystem::path& folder() const { return temporary_; }  // writers put their files here
  void add(FileReport report);
  // Step, generation, files and tensors of `manifest` are filled in here. Returns the checkpoint's folder.
  std::filesystem::path commit(Manifest manifest);
  // Call it after commit(). If it throws, the checkpoint exists all the same, and readers find it, because
  // none trusts `latest`.
  void point_latest_here();

 private:
  void refuse_if_superseded() const;
  std::filesystem::path unused_name() const;

  FileSystem& files_;
  std::filesystem::path checkpoints_, temporary_, committed_;  // committed_: empty before commit()
  int64_t step_, generation_;
  std::vector<FileReport> reports_;
};

// Renames the folder and then removes it, so that a half-removed checkpoint is never taken for a checkpoint.
// If somebody else has already done so, nothing happens. `wanted` is asked behind the renaming; where it says
// yes the folder gets its name back. True: the folder is gone.
bool discard_folder(FileSystem& files, const std::filesystem::path& folder,
                    const std::function<bool()>& wanted = {});

Manifest read_manifest(const FileSystem& files, const std::filesystem::path& checkpoint);

}  // namespace longhaul::storage
