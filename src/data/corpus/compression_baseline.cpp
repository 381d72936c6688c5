#include "data/corpus/compression_baseline.h"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/tokens/cache.h"

namespace longhaul::data {
namespace {

[[noreturn]] void no_memory(const char* program, int64_t bytes) {
  throw Error({.code = ExitCode::kOutOfMemory,
               .what = fmt::format("no memory for what {} -9 makes of the text", program),
               .expected = bytes_text(bytes)});
}

class GzipCounter {
 public:
  GzipCounter() {
    if (deflateInit2(&state_, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      no_memory("gzip", 1 << 18);
  }
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
    if (lzma_easy_encoder(&state_, 9, LZMA_CHECK_CRC64) != LZMA_OK)
      no_memory("xz", static_cast<int64_t>(lzma_easy_encoder_memusage(9)));
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

struct Enough {};  // thrown through the reader when a source has given its share

class Compressors final : public CorpusSink {
 public:
  explicit Compressors(Progress& progress) : progress_(progress) {}
  void take_at_most(int64_t bytes) { left_ = bytes; }
  void begin(const DocumentInfo&, Split) override {}
  void text(std::string_view chunk) override {
    chunk = chunk.substr(0, static_cast<size_t>(std::min(left_, static_cast<int64_t>(chunk.size()))));
    bytes_ += static_cast<int64_t>(chunk.size());
    left_ -= static_cast<int64_t>(chunk.size());
    gzip_.add(chunk);
    xz_.add(chunk);
    progress_.advance(static_cast<int64_t>(chunk.size()));
    if (left_ == 0) throw Enough{};
  }
  void end(const CorpusCounts&, const CorpusPosition&) override {}
  CompressionBaseline finish() { return {bytes_, gzip_.finish(), xz_.finish()}; }

 private:
  Progress& progress_;
  GzipCounter gzip_;
  XzCounter xz_;
  int64_t bytes_ = 0, left_ = 0;
};

// In proportion to what they hold out.
std::vector<int64_t> baseline_shares(const std::vector<int64_t>& held_out_bytes, int64_t most_bytes) {
  const auto total =
      static_cast<double>(std::accumulate(held_out_bytes.begin(), held_out_bytes.end(), int64_t{0}));
  if (total <= static_cast<double>(most_bytes)) return {};
  std::vector<int64_t> shares;
  for (const int64_t bytes : held_out_bytes)
    shares.push_back(
        static_cast<int64_t>(static_cast<double>(most_bytes) * (static_cast<double>(bytes) / total)));
  return shares;
}

std::optional<CompressionBaseline> kept_in(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* name) {
    return json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json();
  };
  const auto bytes = number("bytes"), gzip = number("gzip_bytes"), xz = number("xz_bytes");
  if (!bytes.is_number_integer() || !gzip.is_number_integer() || !xz.is_number_integer()) return std::nullopt;
  mark_used(file);
  return CompressionBaseline{bytes, gzip, xz};
}

}  // namespace

CompressionBaseline compression_baseline(const Corpus& corpus, const std::vector<int64_t>& most_of_source) {
  Progress progress("compressing the held-out text", 0, Progress::Unit::kBytes);
  Compressors compressors(progress);
  for (size_t s = 0; s < corpus.sources().size(); ++s) {
    const int64_t most = most_of_source.empty() ? INT64_MAX : most_of_source.at(s);
    if (most == 0) continue;
    compressors.take_at_most(most);
    try {
      corpus.read(s, Split::kHeldOut, compressors);
    } catch (const Enough&) {
    }
  }
  return compressors.finish();
}

std::optional<CompressionBaseline> compression_baseline(const Corpus& corpus,
                                                        const std::vector<int64_t>& held_out_bytes,
                                                        const std::filesystem::path& cache,
                                                        int64_t most_bytes) {
  try {
    std::string keys;
    for (size_t source = 0; source < corpus.sources().size(); ++source) keys += " " + corpus.key(source);
    const std::string key = sha256_hex(fmt::format("longhaul compression 3 {}{}", most_bytes, keys));
    const auto path = cache / fmt::format("compression-{}.json", key.substr(0, 16));
    if (const auto kept = kept_in(path)) return kept;
    const CompressionBaseline found =
        compression_baseline(corpus, baseline_shares(held_out_bytes, most_bytes));
    try {
      make_folders(cache);
      const nlohmann::json kept = {
          {"bytes", found.bytes}, {"gzip_bytes", found.gzip_bytes}, {"xz_bytes", found.xz_bytes}};
      write_text_atomically(path, kept.dump());
    } catch (const Error& error) {  // perhaps a cache of other users: the next start compresses again
      log_warning("what compressors make of the text is not kept: {}", error.what());
    }
    return found;
  } catch (const std::exception& problem) {
    const auto* const error = dynamic_cast<const Error*>(&problem);
    if (error != nullptr && error->code() == ExitCode::kPreemptedNotSaved) throw;
    log_warning("no figures of gzip and xz beside the model's (observe.compression_baseline): {}",
                problem.what());
    return std::nullopt;
  }
}

}  // namespace longhaul::data
