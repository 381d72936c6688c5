// PublishedFolder: the tensors in the folder of a public model: model.safetensors, or several files with a
// model.safetensors.index.json that says which tensor is in which file; if both exist, the index must name
// the single file. Nothing in it is trusted: the index may only name plain files of the folder, every tensor
// that it names must be in that file, and every tensor of a file must be named exactly once. Pickle files
// (.bin, .pt) are refused, because reading one runs code in it.
//
// Files may be symbolic links, as download caches make them. Several threads may read at once. Errors are
// kData and name file and tensor; a broken safetensors file is kCheckpoint.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "storage/file_system.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

inline constexpr const char* kPublishedIndex = "model.safetensors.index.json";
inline constexpr const char* kPublishedFile = "model.safetensors";

class PublishedFolder {
 public:
  static PublishedFolder open(const FileSystem& files, const std::filesystem::path& folder);

  std::vector<std::string> names() const;                 // sorted
  const TensorInfo* find(const std::string& name) const;  // null: there is no such tensor
  void read(const std::string& name, int64_t first_byte, std::span<std::byte> into) const;
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path file_of(const std::string& name) const;
  int64_t bytes() const;

 private:
  void add_file(const FileSystem& files, const std::string& name);
  void check_index(const std::map<std::string, std::string>& file_of_tensor) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  struct Place {
    size_t file = 0;
    const TensorInfo* tensor = nullptr;
  };
  std::map<std::string, Place> places_;
};

}  // namespace longhaul::storage
