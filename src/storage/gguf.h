// Writer of GGUF files (version 3), which llama.cpp and what is built on it read: "GGUF" | u32 version | u64
// tensors | u64 fields | fields | tensor infos | padding to 32 bytes | each tensor's data, padded to 32
// bytes. All little-endian. A tensor's sizes stand with the fastest first. Data is written front to back,
// tensor by tensor, so no more than the caller's piece is in memory. One thread.
//
//   GgufWriter writer(files, path, fields, tensors);
//   for (const GgufTensor& tensor : tensors) writer.write(bytes of tensor, in pieces of any size);
//   writer.finish();   // synced and closed
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/file_system.h"

namespace longhaul::storage {

enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8 };  // as in the files
// numbers of a Q8_0 block: an f16 scale, then 32 signed bytes
inline constexpr int64_t kQ8Block = 32;
inline constexpr int64_t kQ8BlockBytes = 34;
int64_t gguf_bytes(GgufType type, int64_t elements);  // elements of Q8_0: whole blocks

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major, the last one fastest
  GgufType type = GgufType::kF32;
  int64_t bytes() const;
};

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<std::string>,
                               std::vector<int32_t>, std::vector<float>>;
using GgufFields = std::vector<std::pair<std::string, GgufValue>>;  // in the order of the file

class GgufWriter {
 public:
  GgufWriter(FileSystem& files, const std::filesystem::path& path, const GgufFields& fields,
             std::vector<GgufTensor> tensors);
  ~GgufWriter();
  void write(std::span<const std::byte> data);
  int64_t finish();  // bytes of the file

 private:
  void put(std::span<const std::byte> data);
  void pad();

  std::unique_ptr<FileWriter> file_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::byte> buffer_;
  size_t current_ = 0;    // tensor being written
  int64_t written_ = 0;   // of its bytes
  int64_t position_ = 0;  // of the file
};

}  // namespace longhaul::storage
