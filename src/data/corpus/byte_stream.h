// ByteStream: the bytes of a file, chunk by chunk, with .gz, .zst and .xz decompressed on the way. It needs
// one buffer of input and the memory of the decompressor (32 KiB for gzip; for zstd the window that the file
// declares, at most 128 MiB; for xz its dictionary, 64 MiB after xz -9). A file that unpacks to more than 256
// MiB and 250 times its own size is refused. Files of several gzip members, zstd frames or xz streams are
// read to their end. A truncated or damaged file is an error (65) that names it. Each ByteStream is for one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace longhaul::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual size_t read(std::span<char> into) = 0;  // 0 at the end
  virtual int64_t consumed_bytes() const = 0;     // bytes of the file on the disk, for progress
};

enum class Compression { kNone, kGzip, kZstd, kXz };

// Compares the ending of a name, which people write in either case (".JSONL.GZ"). `ending` is in lower case,
// ASCII.
bool ends_with_in_any_case(std::string_view name, std::string_view ending);
Compression compression_of(std::string_view file_name);            // by its ending
std::string_view without_compression(std::string_view file_name);  // "a.jsonl.zst" → "a.jsonl"
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

}  // namespace longhaul::data
