// Checkpoint: a committed checkpoint, open for reading under any layout. Tensors are read as rectangles of
// their global shape, whatever rectangles they were stored in: the needed and the stored rectangles are
// intersected, and the contiguous runs are read with pread.
//
//   const Checkpoint checkpoint = Checkpoint::open(files, "checkpoints/step-000000012");
//   checkpoint.verify();                                   // all bytes; an Error (66) names file and tensor
//   checkpoint.read("layers.0.mixer.q.weight", {.offset = {0, 0}, .length = {128, 512}}, bytes);
//
// open() checks the manifest, that every file has its recorded size, and that each file's header agrees with
// the manifest. A caller that needs tensors of one role only (the weights) names it: files without such
// tensors are then neither opened nor verified, and may be missing. Only a few files are open at a time
// (reader_pool.h). The file system must outlive the checkpoint. Several threads may read at once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

#include "layout/rectangle.h"
#include "storage/file_system.h"
#include "storage/manifest.h"
#include "storage/reader_pool.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

inline constexpr std::string_view kAllRoles;

class Checkpoint {
 public:
  static Checkpoint open(const FileSystem& files, const std::filesystem::path& folder,
                         std::string_view role = kAllRoles);
  // Reads the manifest only. Each file is checked, as open() does it, when it is first used.
  static Checkpoint open_unchecked(const FileSystem& files, const std::filesystem::path& folder);
  // Opens the part of a checkpoint in this folder (a node's memory tier, storage/node_tier.h). Missing or
  // broken files are no error until they are read.
  static Checkpoint open_some(const FileSystem& files, const std::filesystem::path& folder,
                              Manifest manifest);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }
  const ManifestTensor* find(const std::string& name) const;  // null when missing
  const ManifestTensor& at(const std::string& name) const;    // Error (66) when missing

  // `into` is the row-major buffer of the rectangle and is filled completely. The rectangle of a scalar is
  // [1].
  void read(const std::string& name, const layout::Rectangle& needed, std::span<std::byte> into) const;
  std::vector<std::byte> read_tensor(const std::string& name) const;

  // Reads every byte once (of the files of the opened role) and checks the sha256 of each file and the crc32c
  // of each piece. `progress` receives the number of bytes just read.
  void verify(const std::function<void(int64_t)>& progress = {}) const;
  void verify_file(const std::string& file, const std::function<void(int64_t)>& progress = {}) const;

 private:
  // A logical tensor and its part in the file.
  using Pieces = std::vector<std::pair<const std::string*, const ManifestShard*>>;
  struct Files {  // a struct of its own, so that a checkpoint can be moved
    std::mutex mutex;
    std::unordered_map<std::string, SafetensorsFile> checked;
  };

  Checkpoint(const FileSystem& files, const std::filesystem::path& folder, Manifest manifest);
  SafetensorsFile checked_file(const ManifestFile& listed) const;
  const SafetensorsFile& file(const std::string& name) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::unordered_map<std::string, const ManifestFile*> listed_;
  std::unordered_map<std::string, Pieces> pieces_;  // by file
  std::shared_ptr<ReaderPool> readers_;
  std::unique_ptr<Files> files_;
  std::set<std::string> needed_;                     // files of the role for which the checkpoint was opened
  std::unordered_map<std::string, Error> unusable_;  // missing or incomplete files
};

// The files that hold a tensor of this role; all files for kAllRoles.
std::set<std::string> files_with_role(const Manifest& manifest, std::string_view role);

int64_t element_bytes(DType dtype);  // of dtypes with whole bytes; others are an internal error

}  // namespace longhaul::storage
