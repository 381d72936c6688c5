// PackingIndex: which tokens make sample i of one epoch. A pure function of (dataset, sequence length, epoch, seed); the number of
// ranks, threads and restarts does not enter. It lies in a memory-mapped file, made once (docs/formats/packing-index.md).
//
// A document of n tokens is a run of n + 1 inputs: what begins a document (encoder.h), then its tokens. The label of an input is the next token of
// the same document, and the separator after the last; so every token and every document end is predicted exactly once an epoch.
// Documents are put end to end in a random order (a Feistel permutation of the seed and epoch) and the row is cut every
// `sequence` inputs. A document that reaches over a cut goes on in another sample: its last label before the cut is the token
// after it, and the rest begins with fresh state and position 0. The pieces are then read in a random order of their own: read as
// they were cut, a long document would fill whole steps in a row, and training would follow one file after another. The piece at
// the end of the row is filled with padding whose labels are ignored. Immutable; may be read from several threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/random.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct DocumentSpan {
  int64_t document = 0;  // of the dataset; kPadding: no document
  int64_t start = 0;     // first input, 0 … length(document)
  int64_t length = 0;    // inputs
  bool operator==(const DocumentSpan&) const = default;
};
inline constexpr int64_t kPadding = -1;
inline constexpr uint32_t kPackingVersion = 3;

struct PackingKey {
  std::string dataset;  // TokenDataset::fingerprint()
  int64_t sequence = 0;
  int64_t epoch = 0;
  uint64_t seed = 0;
};

class PackingIndex {
 public:
  // Opens folder/<name from key>, or makes it. A damaged index is made again, with a warning: nothing is lost with it.
  static PackingIndex open_or_make(const TokenDataset& dataset, int64_t sequence, int64_t epoch, uint64_t seed,
                                   const std::filesystem::path& folder);
  static PackingIndex open(const std::filesystem::path& path, const PackingKey& key, int64_t documents);  // kData

  int64_t samples() const { return samples_; }
  // The samples of an epoch, without making the index; the same in every epoch.
  static int64_t samples(const TokenDataset& dataset, int64_t sequence);

  // Spans of sample `index`, lengths adding up to `sequence`: one table look-up, then the documents in it.
  std::vector<DocumentSpan> sample(const TokenDataset& dataset, int64_t index) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  PackingIndex(const PackingKey& key);

  RandomStream document_order_, sample_order_;
  int64_t sequence_;
  int64_t documents_ = 0;
  int64_t samples_ = 0;
  MappedFile file_;
};

// Inputs and labels of a span; into.size() == labels.size() == span.length.
void read_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> inputs, std::span<int64_t> labels);
// Bytes of text that the span's labels stand for. A document's bytes are dealt out over its labels by rounding a straight
// line, so the parts of a document, however cut, add up to its bytes exactly.
int64_t span_bytes(const TokenDataset& dataset, const DocumentSpan& span);

}  // namespace longhaul::data
