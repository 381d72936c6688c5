// Batch: the tokens of one optimizer step or micro-batch, concatenated: `rows` samples of `sequence` inputs
// each. Inputs and labels are [tokens]; a label of -1 (layout::kIgnoreLabel) does not contribute to the loss.
// The layout's documents are the parts of documents in the samples; none crosses the end of a sample. Samples
// are the layout's rows. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/sequence.h"

namespace longhaul::data {

struct Batch {
  int64_t first_position = 0;  // position in the run's sample order; for evaluation, in the window order
  int64_t rows = 0;
  int64_t sequence = 0;  // inputs per row; 0: rows have different lengths (evaluation)
  std::vector<int64_t> inputs;
  std::vector<int64_t> labels;
  // What the labels weigh in the loss, one for each, where the data says so; empty: 1. A label that weighs
  // nothing is ignored.
  std::vector<float> weights;
  layout::SequenceLayout layout;
  int64_t target_tokens = 0;     // labels that are not ignored
  int64_t target_bytes = 0;      // bytes of the text of these labels
  double target_weight() const;  // of the labels that are not ignored
  bool operator==(const Batch&) const = default;
};

// BatchBuilder collects documents and concatenates them.
class BatchBuilder {
 public:
  // Span: space for `length` inputs of the next document, whose labels the caller fills; -1 where ignored.
  // `weights` is empty where the builder was made without.
  struct Span {
    std::span<int64_t> inputs, labels;
    std::span<float> weights;
  };
  explicit BatchBuilder(bool with_weights = false) : with_weights_(with_weights) {}
  Span add(int64_t length);
  void join();  // the next span continues the document of the last one
  int64_t tokens() const { return static_cast<int64_t>(batch_.inputs.size()); }
  Batch finish();  // counts the targets and makes the layout, in rows if `sequence` is set

  Batch& batch() { return batch_; }

 private:
  Batch batch_;
  std::vector<int64_t> lengths_;
  bool join_ = false, with_weights_;
};

// Splits a batch with equal rows into batches of `rows` rows each: the micro-batches of a step.
std::vector<Batch> micro_batches(const Batch& batch, int64_t rows);

}  // namespace longhaul::data
