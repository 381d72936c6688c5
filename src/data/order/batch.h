// Batch: the tokens of one optimizer step or micro-batch, packed end to end: `rows` samples of `sequence` inputs each.
// Inputs and labels are [tokens]; a label of -1 (layout::kIgnoreLabel) takes no part in the loss. The layout's documents are the
// parts of documents inside the samples; none reaches over a sample's end. Samples are the layout's rows. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/sequence.h"

namespace longhaul::data {

struct Batch {
  int64_t first_position = 0;  // of the run's sample order; evaluation: of the window order
  int64_t rows = 0;
  int64_t sequence = 0;  // inputs per row; 0: rows differ in length (evaluation)
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
  layout::SequenceLayout layout;
  int64_t target_tokens = 0;  // labels that count
  int64_t target_bytes = 0;   // of text that they stand for
  bool operator==(const Batch&) const = default;
};

// Collects documents end to end.
class BatchBuilder {
 public:
  // Room for `length` inputs of the next document, whose labels the caller fills; -1 where ignored.
  struct Span {
    std::span<int64_t> inputs, labels;
  };
  Span add(int64_t length);
  void join();  // the next span goes on with the document of the last one
  int64_t tokens() const { return static_cast<int64_t>(batch_.inputs.size()); }
  Batch finish();  // counts the targets, makes the layout, in rows where `sequence` is set

  Batch& batch() { return batch_; }

 private:
  Batch batch_;
  std::vector<int64_t> lengths_;
  bool join_ = false;
};

// Rows first … first + rows of a batch with equal rows, as a batch of its own: how a step's batch becomes micro-batches.
std::vector<Batch> micro_batches(const Batch& batch, int64_t rows);

}  // namespace longhaul::data
