// What general compressors make of the held-out text: the yardstick a language model has to beat. The held-out documents are joined
// in the order of the corpus, nothing between them, and streamed through zlib level 9 with gzip framing (`gzip -9`) and liblzma preset 9
// (`xz -9`, which takes up to 674 MB when the text is longer than 64 MiB; less in proportion below).
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/corpus.h"

namespace longhaul::data {

struct CompressionBaseline {
  int64_t bytes = 0, gzip_bytes = 0, xz_bytes = 0;
  double gzip_bits_per_byte() const { return bytes == 0 ? 0 : 8.0 * static_cast<double>(gzip_bytes) / static_cast<double>(bytes); }
  double xz_bits_per_byte() const { return bytes == 0 ? 0 : 8.0 * static_cast<double>(xz_bytes) / static_cast<double>(bytes); }
};

CompressionBaseline compression_baseline(const Corpus& corpus);

// The same, kept in the cache folder: kNew compresses and keeps it, kKept takes what an earlier start of a run kept of this text.
enum class Baseline { kNew, kKept };
CompressionBaseline compression_baseline(const Corpus& corpus, const std::filesystem::path& cache, Baseline wanted);

}  // namespace longhaul::data
