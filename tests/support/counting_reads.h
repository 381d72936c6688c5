// CountingReads: counts the bytes of tensors that are read through it. Headers do not count, because they
// are read whenever a checkpoint is opened.
#pragma once

#include <memory>

#include "support/storage/wrapped_file_system.h"

namespace longhaul::storage {

class CountingReads final : public WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links = Links::kRefuse) const override {
    class Reader final : public FileReader {
     public:
      Reader(std::unique_ptr<FileReader> inner, int64_t data_begin, int64_t& count)
          : inner_(std::move(inner)), data_begin_(data_begin), count_(count) {}
      int64_t size() const override { return inner_->size(); }
      void read_exactly(int64_t offset, std::span<std::byte> into) const override {
        if (offset >= data_begin_) count_ += static_cast<int64_t>(into.size());
        inner_->read_exactly(offset, into);
      }

     private:
      std::unique_ptr<FileReader> inner_;
      int64_t data_begin_;
      int64_t& count_;
    };
    auto inner = inner_.open(path, missing, links);
    if (path.extension() != ".safetensors") return inner;
    uint64_t header = 0;  // little-endian, as on every machine that Longhaul runs on
    inner->read_exactly(0, std::as_writable_bytes(std::span(&header, 1)));
    return std::make_unique<Reader>(std::move(inner), 8 + static_cast<int64_t>(header), tensor_bytes_read);
  }
  mutable int64_t tensor_bytes_read = 0;
};

}  // namespace longhaul::storage
