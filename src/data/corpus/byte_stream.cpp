#include "data/corpus/byte_stream.h"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/progress.h"

namespace longhaul::data {
namespace {

constexpr size_t kInputBytes = 256 << 10;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(File file) : file_(std::move(file)) {}
  size_t read(std::span<char> into) override {
    const size_t got = file_.read_some(offset_, std::as_writable_bytes(into));
    offset_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t consumed_bytes() const override { return offset_; }

 private:
  File file_;
  int64_t offset_ = 0;
};

[[noreturn]] void damaged(const std::filesystem::path& path, const char* kind, const std::string& found) {
  throw Error({.code = ExitCode::kData,
               .what = fmt::format("cannot decompress a {} file of the corpus", kind),
               .expected = fmt::format("a whole {} file", kind),
               .found = found,
               .where = path.string(),
               .hint = "copy the file again, or take it out of the source"});
}

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(File file) : input_(std::move(file)), buffer_(kInputBytes) {
    LONGHAUL_ASSERT(inflateInit2(&state_, 15 + 16) == Z_OK, "inflateInit2");
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  size_t read(std::span<char> into) override {
    state_.next_out = reinterpret_cast<Bytef*>(into.data());
    state_.avail_out = static_cast<uInt>(into.size());
    while (state_.avail_out == into.size() && !done_) step();
    return into.size() - state_.avail_out;
  }
  int64_t consumed_bytes() const override { return offset_; }

 private:
  void step() {
    if (state_.avail_in == 0 && !fill()) {
      if (inside_member_)
        damaged(input_.path(), "gzip",
                fmt::format("the end of the file after {} bytes, inside a member", offset_));
      done_ = true;
      return;
    }
    if (!inside_member_) {  // another member; tools pad archives with zero bytes after the last one
      while (state_.avail_in > 0 && *state_.next_in == 0) ++state_.next_in, --state_.avail_in;
      if (state_.avail_in == 0) return;
      inflateReset(&state_);
      inside_member_ = true;
    }
    const int code = inflate(&state_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      inside_member_ = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      damaged(input_.path(), "gzip", state_.msg ? state_.msg : fmt::format("zlib code {}", code));
    }
  }
  bool fill() {
    const size_t got = input_.read_some(offset_, std::as_writable_bytes(std::span(buffer_)));
    offset_ += static_cast<int64_t>(got);
    if (offset_ == 0) damaged(input_.path(), "gzip", "an empty file");
    state_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    state_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  File input_;
  std::vector<char> buffer_;
  z_stream state_{};
  int64_t offset_ = 0;
  bool inside_member_ = true;  // a file begins with one
  bool done_ = false;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(File file)
      : input_(std::move(file)), buffer_(kInputBytes), state_(ZSTD_createDStream(), &ZSTD_freeDStream) {
    LONGHAUL_ASSERT(state_ != nullptr, "ZSTD_createDStream");
  }

  size_t read(std::span<char> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0 && !done_) {
      if (in_.pos == in_.size && !pending_output_ && !fill()) {
        if (remaining_ != 0)
          damaged(input_.path(), "zstd",
                  fmt::format("the end of the file after {} bytes, inside a frame", offset_));
        done_ = true;
        break;
      }
      remaining_ = ZSTD_decompressStream(state_.get(), &out, &in_);
      if (ZSTD_isError(remaining_)) damaged(input_.path(), "zstd", ZSTD_getErrorName(remaining_));
      // A full output buffer may leave more inside the decompressor.
      pending_output_ = out.pos == out.size && remaining_ != 0;
    }
    return out.pos;
  }
  int64_t consumed_bytes() const override { return offset_; }

 private:
  bool fill() {
    const size_t got = input_.read_some(offset_, std::as_writable_bytes(std::span(buffer_)));
    offset_ += static_cast<int64_t>(got);
    if (offset_ == 0) damaged(input_.path(), "zstd", "an empty file");
    in_ = {buffer_.data(), got, 0};
    return got > 0;
  }

  File input_;
  std::vector<char> buffer_;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> state_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  size_t remaining_ = 0;
  bool pending_output_ = false;
  bool done_ = false;
  int64_t offset_ = 0;
};

class XzStream final : public ByteStream {
 public:
  explicit XzStream(File file) : input_(std::move(file)), buffer_(kInputBytes) {
    LONGHAUL_ASSERT(lzma_stream_decoder(&state_, kXzMemoryBytes, LZMA_CONCATENATED) == LZMA_OK,
                    "lzma_stream_decoder");
  }
  ~XzStream() override { lzma_end(&state_); }
  XzStream(const XzStream&) = delete;
  XzStream& operator=(const XzStream&) = delete;

  size_t read(std::span<char> into) override {
    state_.next_out = reinterpret_cast<uint8_t*>(into.data());
    state_.avail_out = into.size();
    while (state_.avail_out == into.size() && !done_) step();
    return into.size() - state_.avail_out;
  }
  int64_t consumed_bytes() const override { return offset_; }

 private:
  void step() {
    if (state_.avail_in == 0 && !at_end_) {
      const size_t got = input_.read_some(offset_, std::as_writable_bytes(std::span(buffer_)));
      offset_ += static_cast<int64_t>(got);
      at_end_ = got == 0;
      state_.next_in = reinterpret_cast<const uint8_t*>(buffer_.data());
      state_.avail_in = got;
    }
    const lzma_ret code = lzma_code(&state_, at_end_ ? LZMA_FINISH : LZMA_RUN);
    if (code == LZMA_STREAM_END) {
      done_ = true;
    } else if (code == LZMA_BUF_ERROR && at_end_) {
      damaged(input_.path(), "xz",
              fmt::format("the end of the file after {} bytes, inside a stream", offset_));
    } else if (code != LZMA_OK) {
      damaged(input_.path(), "xz",
              code == LZMA_FORMAT_ERROR ? "another format"
                                        : fmt::format("liblzma code {}", static_cast<int>(code)));
    }
  }

  // A dictionary larger than that of xz -9 must fit into this or is refused.
  static constexpr uint64_t kXzMemoryBytes = uint64_t{1} << 30;
  File input_;
  std::vector<char> buffer_;
  lzma_stream state_ = LZMA_STREAM_INIT;
  bool at_end_ = false, done_ = false;
  int64_t offset_ = 0;
};

// Decompression within limits: a small file that unpacks without end (a "zip bomb") would fill caches and,
// with its tokens, the disk. Real texts are packed tenfold, logs a hundredfold.
class Bounded final : public ByteStream {
 public:
  Bounded(std::unique_ptr<ByteStream> packed, std::filesystem::path path, int64_t file_bytes)
      : packed_(std::move(packed)),
        path_(std::move(path)),
        most_bytes_(std::max(kAlwaysBytes, kMostTimes * file_bytes)) {}

  size_t read(std::span<char> into) override {
    const size_t got = packed_->read(into);
    given_ += static_cast<int64_t>(got);
    if (given_ <= most_bytes_) return got;
    throw Error({.code = ExitCode::kData,
                 .what = "a compressed file of the corpus unpacks to far more than text does",
                 .expected = fmt::format("at most {} times its size", kMostTimes),
                 .found = fmt::format("more than {} after {} of the file", bytes_text(given_),
                                      bytes_text(packed_->consumed_bytes())),
                 .where = path_.string(),
                 .hint = "take it out of the source, or unpack it yourself where it is meant so"});
  }
  int64_t consumed_bytes() const override { return packed_->consumed_bytes(); }

 private:
  static constexpr int64_t kMostTimes = 250, kAlwaysBytes = int64_t{256} << 20;
  std::unique_ptr<ByteStream> packed_;
  std::filesystem::path path_;
  int64_t most_bytes_, given_ = 0;
};

std::unique_ptr<ByteStream> unpacking(Compression compression, File file) {
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(std::move(file));
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(std::move(file));
    case Compression::kXz:
      return std::make_unique<XzStream>(std::move(file));
    case Compression::kNone:
      break;
  }
  return std::make_unique<PlainStream>(std::move(file));
}

}  // namespace

bool ends_with_in_any_case(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(name.substr(name.size() - ending.size()), ending, {}, lower);
}

Compression compression_of(std::string_view file_name) {
  if (ends_with_in_any_case(file_name, ".gz")) return Compression::kGzip;
  if (ends_with_in_any_case(file_name, ".zst")) return Compression::kZstd;
  if (ends_with_in_any_case(file_name, ".xz")) return Compression::kXz;
  return Compression::kNone;
}

std::string_view without_compression(std::string_view file_name) {
  return compression_of(file_name) == Compression::kNone ? file_name
                                                         : file_name.substr(0, file_name.rfind('.'));
}

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
  File file = File::open(path, File::Mode::kRead, ExitCode::kData);
  const Compression compression = compression_of(path.filename().string());
  const int64_t file_bytes = file.size();
  auto stream = unpacking(compression, std::move(file));
  if (compression == Compression::kNone) return stream;
  return std::make_unique<Bounded>(std::move(stream), path, file_bytes);
}

}  // namespace longhaul::data
