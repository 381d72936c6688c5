// FileOffload: keeps the bytes of saved tensors in a file from the forward pass to the backward pass, so
// that memory holds those of a few layers instead of all (the swapping half of MEMO, arXiv 2407.12117, at
// the level of tensors). It is synchronous: the pass waits for every write and read.
//
// The file has no name, so it disappears with the process, however that ends. Space in it is reused for
// data of the same size, so it grows only to the most that is stored at one time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/saved/file_space.h"
#include "kernels/saved/saved_tensors.h"

namespace longhaul::kernels {

class FileOffload final : public SavedTensors {
 public:
  // least_bytes: smaller storages stay in memory, because they are not worth the calls. `stays`: tensors
  // whose storages others need all the time: weights.
  FileOffload(const std::filesystem::path& folder, int64_t least_bytes, const std::vector<Tensor>& stays);
  std::shared_ptr<SavedStorage> take(const Tensor& x) override;
  int64_t moved_bytes() const { return moved_bytes_; }  // written so far

  int64_t file_bytes() const;  // the file's length, at its longest

 private:
  struct Known {
    SeenStorage seen;
    std::weak_ptr<SavedStorage> storage;
  };
  int64_t least_bytes_, moved_bytes_ = 0;
  std::unordered_set<const void*> stays_;         // StorageImpl
  std::unordered_map<const void*, Known> known_;  // likewise
  std::shared_ptr<FileSpace> space_;
};

}  // namespace longhaul::kernels
