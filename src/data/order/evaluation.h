// EvaluationReader: held-out documents as batches in which every token, every document end and so every byte is a target exactly
// once. Documents stand alone (separator first, fresh state). One that is longer than the context is read in windows: the first
// predicts all its inputs' labels, each later one begins `overlap` inputs before the end of the last and predicts only what is
// new; so with overlap 0 a window starts without memory, and with more of it late tokens keep at least that much context.
// Batches hold whole windows packed end to end, at most tokens_per_batch inputs (one window always fits). One thread.
//
// With `masking` the targets are masked tokens (masked.h), numbered in reading order; windows must not overlap then, for a token would be in two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/order/batch.h"
#include "data/order/masked.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct EvaluationOptions {
  int64_t context = 512;  // longest window, inputs
  int64_t tokens_per_batch = 4096;
  int64_t overlap = 0;               // below context
  int64_t limit_tokens = 0;          // stop after this many targets, documents taken in a fixed random order; 0: all, in corpus order
  std::optional<Masking> masking{};  // none: next tokens. limit_tokens then counts tokens, masked or not
};

class EvaluationReader {
 public:
  EvaluationReader(std::vector<const TokenDataset*> datasets, EvaluationOptions options);  // the datasets must outlive it
  std::optional<Batch> next();
  int64_t tokens() const;  // targets of a whole pass (limit_tokens when that is less); with masking about as many

 private:
  struct Window {
    const TokenDataset* dataset;
    int64_t document, start, length;
    int64_t context_only;  // labels at its front that another window counts
  };
  std::optional<Window> next_window();

  std::vector<const TokenDataset*> datasets_;
  EvaluationOptions options_;
  int64_t documents_ = 0;
  int64_t ordinal_ = 0;  // of the current document, in reading order
  int64_t done_ = 0;     // labels of it already given out
  int64_t targets_ = 0;  // given out
  int64_t windows_ = 0;
  uint64_t inputs_ = 0;            // given out
  std::optional<Window> waiting_;  // did not fit into the last batch
};

}  // namespace longhaul::data
