// Loader: the batches of training. batch_at(step) is a pure function of (datasets, options, step): nothing in it remembers what was
// given out before, so resuming needs only the step, and prefetched batches are not state.
//
// The run's samples stand in one order, positions 0, 1, …; step s trains on positions schedule(s) … schedule(s+1)-1 (a batch size
// that changes is a schedule that changes its slope). A position becomes a sample by passing over the skip list, then a (dataset,
// index) by the blend, then (epoch, index within it) by that dataset's size, then tokens by its packing index.
//
// take() serves from a background worker that stays `prefetch` steps ahead. batch_at and batch_of may be called from any thread;
// take belongs to one thread.
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
  std::function<int64_t(int64_t step)> first_position;  // of a step; steps count from 0
  std::vector<double> weights;                          // empty: by size in tokens
  std::vector<BlendPoint> mix;                          // instead: weights that move over the samples of the run
  std::vector<SampleRange> skip;
  bool document_boundaries = true;     // false: a row is one document for the model, whatever it holds
  int64_t prefetch = 2;                // steps prepared ahead; 0: none
  std::filesystem::path index_folder;  // of packing indexes
  std::shared_ptr<BatchShare> share;   // with loaders of this machine that take the same; null: take() reads itself
  int64_t replica = 0, replicas = 1;   // take() gives one replica's part of each step: batch_at(step, replica, replicas)
};

LoaderOptions with_batch(LoaderOptions options, int64_t batch);  // the constant schedule

class Loader {
 public:
  // The datasets must outlive the loader. kData: no dataset, none with documents, different tokenizers.
  Loader(std::vector<const TokenDataset*> datasets, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch batch_at(int64_t step) const;
  // The part of rank `rank` of `ranks`: a contiguous slice of the step's rows, sizes differing by at most one.
  Batch batch_at(int64_t step, int64_t rank, int64_t ranks) const;
  Batch batch_of(int64_t first_position, int64_t rows) const;
  Batch take(int64_t step);  // this replica's part of the step, prefetched when steps are taken in order

  int64_t sample_at(int64_t position) const;  // the skip list applied
  // From now on these samples are passed over too: positions from the first of them on get later samples. Of the thread that takes.
  void pass_over(const std::vector<SampleRange>& ranges);
  SampleRange samples_of(int64_t first_step, int64_t last_step) const;  // from the first sample of the one to the last of the other
  struct Origin {
    int64_t dataset, epoch, index;
    bool operator==(const Origin&) const = default;
  };
  Origin origin_of(int64_t sample) const;
  std::vector<DocumentSpan> spans_of(int64_t sample) const;

  DataPosition position_before(int64_t step) const;     // the data position when `step` is the next one to train
  double epochs_at(int64_t step) const;                 // how often the whole has been read before `step`; for display
  double share(int64_t dataset, int64_t sample) const;  // in the blend there

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
  std::optional<MovingBlend> moving_;  // instead of it
  std::vector<int64_t> samples_;       // of an epoch, by dataset
  int64_t lists_ = 0;                  // of samples to pass over that there were before
  std::unique_ptr<Indexes> indexes_;
  std::unique_ptr<Prefetch> prefetch_;  // last: its thread uses everything above
};

}  // namespace longhaul::data
