#include "support/storage/fault_file_system.h"

#include <vector>

namespace longhaul::storage {

namespace fs = std::filesystem;

class FaultFileSystem::Writer final : public FileWriter {
 public:
  Writer(FaultFileSystem& disk, std::unique_ptr<FileWriter> inner, fs::path path)
      : disk_(disk), inner_(std::move(inner)), path_(std::move(path)) {}

  void write(std::span<const std::byte> data) override {
    if (disk_.next_write_is_short()) inner_->write(data.first(data.size() / 2));
    disk_.step(Needs::kSpace, path_);
    if (disk_.writes_++ == disk_.flip_write_ && disk_.flip_byte_ < static_cast<int64_t>(data.size())) {
      std::vector<std::byte> changed(data.begin(), data.end());
      changed[static_cast<size_t>(disk_.flip_byte_)] ^= static_cast<std::byte>(1 << disk_.flip_bit_);
      inner_->write(changed);
    } else {
      inner_->write(data);
    }
  }
  void sync() override {
    disk_.step(Needs::kSpace, path_);
    inner_->sync();
  }
  void close() override { inner_->close(); }

 private:
  FaultFileSystem& disk_;
  std::unique_ptr<FileWriter> inner_;
  fs::path path_;
};

void FaultFileSystem::fail_at(int64_t operation, Fault fault) {
  clear();
  fail_at_ = operation;
  fault_ = fault;
}

void FaultFileSystem::flip_bit_of_write(int64_t write, int64_t byte, int bit) {
  clear();
  flip_write_ = write;
  flip_byte_ = byte;
  flip_bit_ = bit;
}

void FaultFileSystem::clear() {
  fault_ = Fault::kNone;
  fail_at_ = flip_write_ = -1;
  operations_ = writes_ = 0;
  full_ = false;
}

void FaultFileSystem::step(Needs needs, const fs::path& path) {
  const bool now = operations_++ == fail_at_ && fault_ != Fault::kNone;
  if (now && fault_ != Fault::kIo) full_ = true;
  if (!now && !(full_ && needs == Needs::kSpace)) return;
  throw Error({.code = ExitCode::kDisk,
               .what = "cannot write",
               .found = full_ ? "No space left on device" : "Input/output error",
               .where = path.string()});
}

std::unique_ptr<FileWriter> FaultFileSystem::create(const fs::path& path) {
  step(Needs::kSpace, path);
  return std::make_unique<Writer>(*this, inner_.create(path), path);
}

void FaultFileSystem::make_folders(const fs::path& folder) {
  step(Needs::kSpace, folder);
  inner_.make_folders(folder);
}

bool FaultFileSystem::make_new_folder(const fs::path& folder) {
  step(Needs::kSpace, folder);
  return inner_.make_new_folder(folder);
}

void FaultFileSystem::rename(const fs::path& from, const fs::path& to) {
  step(Needs::kNothing, from);
  inner_.rename(from, to);
}

void FaultFileSystem::remove(const fs::path& path) {
  step(Needs::kNothing, path);
  inner_.remove(path);
}

void FaultFileSystem::sync_folder(const fs::path& folder) {
  step(Needs::kSpace, folder);
  inner_.sync_folder(folder);
}

}  // namespace longhaul::storage
