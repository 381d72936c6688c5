// Reader and writer of safetensors files. Layout: u64 little-endian N | N bytes of JSON, padded with spaces |
// tensor data, row-major, little-endian, without gaps. docs/formats/safetensors.md says what is accepted and
// what is refused beyond the public format.
//
// Reading never maps the file: every read is a pread after a fresh check of the file's size, so a file that
// shrinks is an error and never gives zeros. No memory is allocated by a number in the file before that
// number was checked against the file. Broken files are Errors with exit code 66 that name the file and, if
// possible, the tensor. Several threads may read a SafetensorsFile at once; a SafetensorsWriter is for one
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "storage/dtype.h"
#include "storage/file_system.h"

namespace longhaul::storage {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // [] is a scalar
  int64_t begin = 0, end = 0;  // bytes, relative to the first byte after the header

  int64_t bytes() const { return end - begin; }
};

struct SafetensorsLimits {
  int64_t header_bytes = 16 << 20;
  int64_t tensors = 1'000'000;
  int64_t rank = 8;
  int64_t name_bytes = 512;
  int64_t total_bytes = std::numeric_limits<int64_t>::max();
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // 8 + N
};

// Bytes of a tensor. Error (66) naming `where` if they overflow or are no whole number. Shapes must not be
// negative.
int64_t tensor_bytes(DType dtype, std::span<const int64_t> shape, std::string_view where);

// Parses the header of a file of `file_bytes` bytes that begins with `start`; if the header's length is
// acceptable, `start` must contain the whole header. Throws on everything malformed. `where` is the file's
// name in errors.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, int64_t file_bytes,
                                           const std::string& where, const SafetensorsLimits& limits = {});

class SafetensorsFile {
 public:
  static SafetensorsFile open(const FileSystem& files, const std::filesystem::path& path,
                              const SafetensorsLimits& limits = {}, Links links = Links::kRefuse);
  static SafetensorsFile of(std::unique_ptr<FileReader> reader, const std::filesystem::path& path,
                            const SafetensorsLimits& limits = {});

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;  // null when missing
  const TensorInfo& at(std::string_view name) const;    // Error (66) when missing
  void read(const TensorInfo& tensor, int64_t first_byte, std::span<std::byte> into) const;
  std::vector<std::byte> read(std::string_view name) const;

  int64_t data_begin() const { return header_.data_begin; }
  int64_t size() const { return size_; }
  void read_raw(int64_t offset, std::span<std::byte> into) const;  // bytes of the file, including the header
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileReader> reader_;
  int64_t size_ = 0;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

struct WrittenFile {
  int64_t bytes = 0;
  std::string sha256;
  std::map<std::string, uint32_t> crc32c;  // per tensor
};

// Writes one file front to back: declare all tensors, then pass their data in the order of tensors().
//   SafetensorsWriter writer(files, path, {{.name = "a", .dtype = DType::kF32, .shape = {2, 3}}});
//   for (const TensorInfo& tensor : writer.tensors()) writer.write(data_of(tensor.name));
//   WrittenFile written = writer.finish();   // synced and closed
class SafetensorsWriter {
 public:
  // `alignment`: the offset of the first data byte is a multiple of it (8 like public writers, 4096 for
  // direct I/O).
  SafetensorsWriter(FileSystem& files, const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata = {}, int64_t alignment = 8);
  ~SafetensorsWriter();
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted, with begin and end
  void write(std::span<const std::byte> data);                         // in pieces of any size
  WrittenFile finish();

 private:
  struct State;
  std::vector<TensorInfo> tensors_;
  std::unique_ptr<State> state_;
};

struct TensorData {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Writes a whole file through `path`.tmp and a rename, so that it appears complete or not at all.
WrittenFile write_safetensors(FileSystem& files, const std::filesystem::path& path,
                              std::span<const TensorData> tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace longhaul::storage
