// EvaluationReader: held-out documents as batches in which every token and every document end, and so every
// byte, is a target exactly once. Each document stands alone (separator first, fresh state). A document
// longer than the context is read in windows: the first one predicts the labels of all its inputs; each later
// one begins `overlap` inputs before the end of the last and predicts only the new labels. So with overlap 0
// a window starts without memory, and otherwise late tokens keep at least that much context. Batches hold
// whole windows, concatenated, with at most tokens_per_batch inputs (but at least one window). For one
// thread.
//
// With `masking` the targets are masked tokens (masked.h), numbered in reading order; windows must then not
// overlap, because a token would be in two of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/order/batch.h"
#include "data/order/masked.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct EvaluationOptions {
  int64_t context = 512;  // longest window in inputs
  int64_t tokens_per_batch = 4096;
  int64_t overlap = 0;  // less than context
  // Stop after this many targets, with documents in a fixed random order; 0: all, in the order of the corpus.
  int64_t limit_tokens = 0;
  // None: predict next tokens. With it limit_tokens counts tokens, masked or not.
  std::optional<Masking> masking{};
};

class EvaluationReader {
 public:
  // The datasets must outlive it.
  EvaluationReader(std::vector<const TokenDataset*> datasets, EvaluationOptions options);
  std::optional<Batch> next();
  // Targets of a whole pass (or limit_tokens if that is less); with masking an approximate number.
  int64_t tokens() const;

 private:
  struct Window {
    const TokenDataset* dataset;
    int64_t document, start, length;
    int64_t context_only;  // first labels that another window counts
  };
  std::optional<Window> next_window();

  std::vector<const TokenDataset*> datasets_;
  EvaluationOptions options_;
  // a dataset says which labels count; the others are not judged, and no label counts more than another
  bool weighted_ = false;
  int64_t documents_ = 0;
  int64_t ordinal_ = 0;  // index of the current document, in reading order
  int64_t done_ = 0;     // its labels already returned
  int64_t targets_ = 0;  // number returned
  int64_t windows_ = 0;
  uint64_t inputs_ = 0;            // number returned
  std::optional<Window> waiting_;  // did not fit into the last batch
};

}  // namespace longhaul::data
