#include "storage/reader_pool.h"

namespace longhaul::storage {

class ReaderPool::Reader final : public FileReader {
 public:
  Reader(std::shared_ptr<ReaderPool> pool, std::filesystem::path path, ExitCode missing)
      : pool_(std::move(pool)), path_(std::move(path)), missing_(missing) {}
  int64_t size() const override { return pool_->reader_of(path_, missing_)->size(); }
  void read_exactly(int64_t offset, std::span<std::byte> into) const override {
    pool_->reader_of(path_, missing_)->read_exactly(offset, into);
  }

 private:
  std::shared_ptr<ReaderPool> pool_;
  std::filesystem::path path_;
  ExitCode missing_;
};

std::shared_ptr<ReaderPool> ReaderPool::make(const FileSystem& files, size_t most_open) {
  return std::shared_ptr<ReaderPool>(new ReaderPool(files, most_open));
}

std::unique_ptr<FileReader> ReaderPool::open(const std::filesystem::path& path, ExitCode missing) {
  reader_of(path, missing);
  return std::make_unique<Reader>(shared_from_this(), path, missing);
}

// A file that is being read when it leaves the list is closed when its reader is done.
std::shared_ptr<const FileReader> ReaderPool::reader_of(const std::filesystem::path& path, ExitCode missing) {
  const std::lock_guard hold(mutex_);
  const auto found = by_path_.find(path.native());
  if (found != by_path_.end()) {
    open_.splice(open_.begin(), open_, found->second);
    return open_.front().reader;
  }
  if (open_.size() >= most_open_) {
    by_path_.erase(open_.back().path.native());
    open_.pop_back();
  }
  open_.push_front({path, files_.open(path, missing)});
  by_path_.emplace(path.native(), open_.begin());
  return open_.front().reader;
}

}  // namespace longhaul::storage
