// Loader: the batches of training. batch_at(step) is a pure function of (datasets, options, step): it does
// not remember what was returned before, so that resuming needs only the step, and prefetched batches are not
// state.
//
// The run's samples have one order, with positions 0, 1, …; step s trains on positions schedule(s) …
// schedule(s+1)-1 (a changing batch size is a changing slope of the schedule). A position becomes a sample by
// leaving out the skip list, then a (dataset, index) by the blend, then (epoch, index within it) by that
// dataset's size, then tokens by its packing index.
//
// take() gets batches from a background worker that prepares `prefetch` steps ahead. batch_at and batch_of
// are thread-safe; take is for one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/order/batch.h"
#include "data/order/batch_share.h"
#include "data/order/blend.h"
#include "data/order/data_position.h"
#include "data/order/moving_blend.h"
#include "data/order/packing.h"
#include "data/tokens/dataset.h"

namespace longhaul::data {

struct LoaderOptions {
  int64_t sequence = 512;
  uint64_t seed = 0;
  std::function<int64_t(int64_t step)> first_position;  // first position of a step; steps count from 0
  std::vector<double> weights;                          // empty: by size in tokens
  // instead of weights: weights that change over the samples of the run
  std::vector<BlendPoint> mix;
  std::vector<SampleRange> skip;
  bool document_boundaries = true;     // false: the model sees a row as one document, whatever it holds
  int64_t prefetch = 2;                // steps prepared ahead; 0: none
  std::filesystem::path index_folder;  // folder of the packing indexes
  // Shared with loaders of this machine that take the same batches; null: take() reads them itself.
  std::shared_ptr<BatchShare> share;
  // take() returns one replica's part of each step: batch_at(step, replica, replicas).
  int64_t replica = 0, replicas = 1;
};

LoaderOptions with_batch(LoaderOptions options, int64_t batch);  // the constant schedule

class Loader {
 public:
  // The datasets must outlive the loader. kData: no dataset, none with documents, or different tokenizers.
  Loader(std::vector<const TokenDataset*> datasets, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch batch_at(int64_t step) const;
  // The part of rank `rank` of `ranks`: a contiguous slice of the step's rows; sizes differ by at most one.
  Batch batch_at(int64_t step, int64_t rank, int64_t ranks) const;
  Batch batch_of(int64_t first_position, int64_t rows) const;
  Batch take(int64_t step);  // This replica's part of the step, prefetched when steps are taken in order.

  int64_t sample_at(int64_t position) const;  // applies the skip list
  // Skips these samples too from now on: positions from the first of them on get later samples. Called by the
  // thread that calls take().
  void pass_over(const std::vector<SampleRange>& ranges);
  // From the first sample of the first step to the last sample of the last.
  SampleRange samples_of(int64_t first_step, int64_t last_step) const;
  struct Origin {
    int64_t dataset, epoch, index;
    bool operator==(const Origin&) const = default;
  };
  Origin origin_of(int64_t sample) const;
  std::vector<DocumentSpan> spans_of(int64_t sample) const;

  DataPosition position_before(int64_t step) const;  // the data position if `step` is trained next
  // how often all data has been read before `step`; for display
  double epochs_at(int64_t step) const;
  double share(int64_t dataset, int64_t sample) const;  // share in the blend at that sample

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  Rows rows_of(int64_t step, int64_t rank, int64_t ranks) const;
  Batch shared(const Rows& rows) const;
  struct Indexes;
  struct Prefetch;
  std::shared_ptr<const PackingIndex> index(int64_t dataset, int64_t epoch) const;

  std::vector<const TokenDataset*> datasets_;
  LoaderOptions options_;
  Blend blend_;
  std::optional<MovingBlend> moving_;  // used instead of blend_
  std::vector<int64_t> samples_;       // samples of an epoch, by dataset
  bool weighted_ = false;              // a dataset says what its labels weigh
  int64_t lists_ = 0;                  // number of skip lists so far
  std::unique_ptr<Indexes> indexes_;
  std::unique_ptr<Prefetch> prefetch_;  // last: its thread uses all members above
};

}  // namespace longhaul::data
