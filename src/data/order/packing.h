// PackingIndex: the tokens of sample i of one epoch. It is a pure function of (dataset, sequence length,
// epoch, seed), and does not depend on the number of ranks, threads and restarts. It is stored in a
// memory-mapped file, made once (docs/formats/packing-index.md).
//
// A document of n tokens is a run of n + 1 inputs: the token that begins a document (encoder.h), then its
// tokens. The label of an input is the next token of the same document, and the separator after the last one;
// so every token and every document end is predicted exactly once per epoch. Documents are concatenated in a
// random order (a Feistel permutation of the seed and epoch) and the row is cut every `sequence` inputs. A
// document that crosses a cut continues in another sample: its last label before the cut is the token after
// it, and the rest begins with fresh state and position 0. The pieces are then read in a random order of
// their own: otherwise a long document would fill successive steps, and training would follow one file after
// another. The piece at the end of the row is padded, with ignored labels. Immutable; several threads may
// read it.
//
// Whole documents (ShardIdentity::whole) of n tokens are runs of n - 1 inputs, whose labels are the tokens
// after them. They are not cut where they fit into a sample, and each sample is padded
// (order/whole_packing.h).
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
  int64_t document = 0;  // number in the dataset; kPadding: no document
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
  bool whole = false;  // the documents are whole
};

class PackingIndex {
 public:
  // Opens folder/<name from key>, or makes it. A damaged index is made again, with a warning, because nothing
  // is lost with it.
  static PackingIndex open_or_make(const TokenDataset& dataset, int64_t sequence, int64_t epoch,
                                   uint64_t seed, const std::filesystem::path& folder);
  // kData where it is not the index of `key`.
  static PackingIndex open(const std::filesystem::path& path, const PackingKey& key, int64_t documents);

  int64_t samples() const { return samples_; }
  // The number of samples in an epoch, without making the index; equal in every epoch.
  static int64_t samples(const TokenDataset& dataset, int64_t sequence);

  // The spans of sample `index`, whose lengths add up to `sequence`: one table look-up, then the documents in
  // it.
  std::vector<DocumentSpan> sample(const TokenDataset& dataset, int64_t index) const;
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  PackingIndex(const PackingKey& key);

  std::vector<DocumentSpan> whole_sample(const TokenDataset& dataset, int64_t first, int64_t pieces) const;

  RandomStream document_order_, sample_order_;
  int64_t sequence_;
  bool whole_;
  int64_t documents_ = 0;
  int64_t samples_ = 0;
  MappedFile file_;
};

// Inputs and labels of a span; into.size() == labels.size() == span.length.
void read_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> inputs,
               std::span<int64_t> labels);
// Reads what the span's labels weigh in the loss, and makes ignored labels of those that weigh nothing.
// Returns the bytes of the text of the others.
int64_t weigh_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> labels,
                   std::span<float> weights);
bool any_weighted(const std::vector<const TokenDataset*>& datasets);
// Bytes of the text of the span's labels. A document's bytes are distributed over its labels by rounding a
// straight line, so that the parts of a document, however cut, add up to its bytes exactly.
int64_t span_bytes(const TokenDataset& dataset, const DocumentSpan& span);

}  // namespace longhaul::data
