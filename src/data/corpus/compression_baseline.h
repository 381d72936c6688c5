// The size to which general compressors reduce the held-out text: the baseline that a language model must
// beat. The held-out documents are concatenated in the order of the corpus, with nothing between them, and
// streamed through zlib level 9 with gzip framing (`gzip -9`) and liblzma preset 9 (`xz -9`, which requests
// up to 674 MB and uses less of it, in proportion to the text). xz needs a second per MB: of a text above
// kBaselineBytes only the beginning is compressed, from each source in proportion to what it holds out, and
// the result says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "data/corpus/corpus.h"

namespace longhaul::data {

inline constexpr int64_t kBaselineBytes = 8 << 20;

struct CompressionBaseline {
  int64_t bytes = 0, gzip_bytes = 0, xz_bytes = 0;
  bool operator==(const CompressionBaseline&) const = default;
  double gzip_bits_per_byte() const {
    return bytes == 0 ? 0 : 8.0 * static_cast<double>(gzip_bytes) / static_cast<double>(bytes);
  }
  double xz_bits_per_byte() const {
    return bytes == 0 ? 0 : 8.0 * static_cast<double>(xz_bytes) / static_cast<double>(bytes);
  }
};

// most_of_source: how many bytes of each source's held-out text are used, from its beginning; empty: all of
// every source.
CompressionBaseline compression_baseline(const Corpus& corpus,
                                         const std::vector<int64_t>& most_of_source = {});

// The same for at most `most_bytes` in all, where the sources hold out `held_out_bytes`. The result is stored
// in the cache folder under a key of the text. A failure must not end a run: if the result cannot be computed
// (no memory, a text that is gone) it is left out with a warning. kPreemptedNotSaved: a request to stop.
std::optional<CompressionBaseline> compression_baseline(const Corpus& corpus,
                                                        const std::vector<int64_t>& held_out_bytes,
                                                        const std::filesystem::path& cache,
                                                        int64_t most_bytes = kBaselineBytes);

}  // namespace longhaul::data
