// FileTier: the third tier of train.offload = "host". What finds no room in the host's memory
// (train.offload_memory) lies in a file without a name meanwhile, which is gone with the process, however
// that ends. Two threads write and read it, in the order in which they are asked, while compute goes on.
//
// The memory that is written is held until the bytes are in the file. Where they do not get there (the disk
// is full, or broken), it stays, a warning says so once, and nothing more goes to the file. A read that fails
// is an error of whoever reads: the bytes are lost.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>

#include "kernels/saved/file_space.h"
#include "tensor/copy_lane.h"

namespace longhaul::kernels {

// InTier holds the place of what one write() put into the file; the place is free again with the object.
class InTier {
 public:
  ~InTier() { space_->give_back(place_, bytes_); }
  InTier(const InTier&) = delete;
  InTier& operator=(const InTier&) = delete;

  const std::shared_ptr<Copy>& written() const { return written_; }
  // Waits until it is written. Undefined where the file has the bytes; else the memory that was to be
  // written.
  Tensor still_here();

 private:
  friend class FileTier;
  InTier(std::shared_ptr<FileSpace> space, int64_t bytes)
      : space_(std::move(space)), bytes_(bytes), place_(space_->take(bytes)) {}
  std::shared_ptr<FileSpace> space_;
  int64_t bytes_, place_;
  std::shared_ptr<Tensor> held_ = std::make_shared<Tensor>();  // the writer's, until it is done
  std::shared_ptr<Copy> written_;
};

class FileTier {
 public:
  // bytes_per_second: of each direction, where a slower disk is to be imitated; 0: as fast as it goes.
  FileTier(const std::filesystem::path& folder, double bytes_per_second);

  // Contiguous memory of the host. after: the copy that fills it; null: it is filled.
  std::shared_ptr<InTier> write(const Tensor& from, std::shared_ptr<Copy> after);
  // Reads as many bytes into a tensor once they are written; reads nothing where they are not in the file.
  std::shared_ptr<Copy> read(const InTier& lies, const Tensor& into);
  bool failed() const { return failed_->load(); }
  int64_t longest() const { return space_->longest(); }

 private:
  std::shared_ptr<FileSpace> space_;
  std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  CopyLane writes_, reads_;
};

}  // namespace longhaul::kernels
