#include "data/compression_baseline.h"

#include <lzma.h>
#include <zlib.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folders.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/cache.h"

namespace longhaul::data {
namespace {

class GzipCounter {
 public:
  GzipCounter() { LONGHAUL_ASSERT(deflateInit2(&state_, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2"); }
  ~GzipCounter() { deflateEnd(&state_); }
  GzipCounter(const GzipCounter&) = delete;
  GzipCounter& operator=(const GzipCounter&) = delete;

  void add(std::string_view text) { run(text, Z_NO_FLUSH); }
  int64_t finish() {
    run({}, Z_FINISH);
    return bytes_;
  }

 private:
  void run(std::string_view text, int flush) {
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    state_.avail_in = static_cast<uInt>(text.size());
    do {
      state_.next_out = out_.data();
      state_.avail_out = static_cast<uInt>(out_.size());
      LONGHAUL_ASSERT(deflate(&state_, flush) != Z_STREAM_ERROR, "deflate");
      bytes_ += static_cast<int64_t>(out_.size() - state_.avail_out);
    } while (state_.avail_out == 0);
  }

  z_stream state_{};
  std::array<Bytef, 65536> out_;
  int64_t bytes_ = 0;
};

class XzCounter {
 public:
  XzCounter() {
    if (lzma_easy_encoder(&state_, 9, LZMA_CHECK_CRC64) == LZMA_OK) return;
    throw Error({.code = ExitCode::kOutOfMemory,
                 .what = "no memory for the xz baseline",
                 .expected = bytes_text(static_cast<int64_t>(lzma_easy_encoder_memusage(9)))});
  }
  ~XzCounter() { lzma_end(&state_); }
  XzCounter(const XzCounter&) = delete;
  XzCounter& operator=(const XzCounter&) = delete;

  void add(std::string_view text) { run(text, LZMA_RUN); }
  int64_t finish() {
    run({}, LZMA_FINISH);
    return static_cast<int64_t>(state_.total_out);
  }

 private:
  void run(std::string_view text, lzma_action action) {
    state_.next_in = reinterpret_cast<const uint8_t*>(text.data());
    state_.avail_in = text.size();
    lzma_ret code = LZMA_OK;
    do {
      state_.next_out = out_.data();
      state_.avail_out = out_.size();
      code = lzma_code(&state_, action);
      LONGHAUL_ASSERT(code == LZMA_OK || code == LZMA_STREAM_END, "lzma_code: {}", static_cast<int>(code));
    } while (action == LZMA_FINISH ? code != LZMA_STREAM_END : state_.avail_in > 0);
  }

  lzma_stream state_ = LZMA_STREAM_INIT;
  std::array<uint8_t, 65536> out_;
};

}  // namespace

CompressionBaseline compression_baseline(const Corpus& corpus) {
  CompressionBaseline result;
  GzipCounter gzip;
  XzCounter xz;
  Progress progress("compressing the held-out text", 0, Progress::Unit::kBytes);
  for_each_text(corpus, Split::kHeldOut, [&](std::string_view text) {
    result.bytes += static_cast<int64_t>(text.size());
    gzip.add(text);
    xz.add(text);
    progress.advance(static_cast<int64_t>(text.size()));
  });
  result.gzip_bytes = gzip.finish();
  result.xz_bytes = xz.finish();
  return result;
}

CompressionBaseline compression_baseline(const Corpus& corpus, const std::filesystem::path& cache, Baseline wanted) {
  std::string keys;
  for (size_t source = 0; source < corpus.sources().size(); ++source) keys += " " + corpus.key(source);
  const auto path = cache / fmt::format("compression-{}.json", sha256_hex("longhaul compression 2" + keys).substr(0, 16));
  if (wanted == Baseline::kKept && std::filesystem::exists(path)) {
    const auto json = nlohmann::json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
    const auto number = [&](const char* name) { return json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json(); };
    const auto bytes = number("bytes"), gzip = number("gzip_bytes"), xz = number("xz_bytes");
    if (bytes.is_number_integer() && gzip.is_number_integer() && xz.is_number_integer()) {
      mark_used(path);
      return {bytes, gzip, xz};
    }
  }
  const CompressionBaseline found = compression_baseline(corpus);
  try {
    make_folders(cache);
    const nlohmann::json kept = {{"bytes", found.bytes}, {"gzip_bytes", found.gzip_bytes}, {"xz_bytes", found.xz_bytes}};
    write_text_atomically(path, kept.dump());
  } catch (const Error& error) {  // a cache that others own, perhaps: the next start compresses again
    log_warning("what compressors make of the text is not kept: {}", error.what());
  }
  return found;
}

}  // namespace longhaul::data
