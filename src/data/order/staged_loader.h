// StagedLoader: the batches of a run whose sequences get longer (or shorter) on the way (optim.stages with
// `sequence`): one Loader for every stretch of steps with one length. A stretch reads what a run with its
// length would read that has trained on as many tokens: the next sample is the number of tokens before the
// stretch, divided by the length and rounded up, so blends that change by tokens, and the number of epochs,
// go on. Every length has an order of its own over all documents (packing.h). Within a stretch a token is
// therefore read once an epoch; in the epoch in which a stretch begins some of its tokens come again and
// others wait for the next epoch, because of the short pieces that make up a long one some were read already.
//
// Positions and numbers of samples are counted over the whole run, as in the Loader of a run with one length:
// a step has as many as its batch. Samples to skip are of the stretch in which their numbers were used.
// Steps count from 0. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "data/order/loader.h"

namespace longhaul::data {

// A stretch of steps whose sequences have one length.
struct SequenceStretch {
  int64_t first_step = 0;
  int64_t first_token = 0;  // tokens of all steps before it
  int64_t sequence = 0;
  bool operator==(const SequenceStretch&) const = default;
};

class StagedLoader {
 public:
  // The datasets must outlive the loader. options_of: of a run with this length; its first_position is that
  // of the whole run. stretches: in order; at least one, and the first begins with step 0.
  StagedLoader(std::vector<const TokenDataset*> datasets,
               std::function<LoaderOptions(int64_t sequence)> options_of,
               std::vector<SequenceStretch> stretches);

  Batch take(int64_t step) { return loader_of(step).take(step); }
  Batch batch_at(int64_t step, int64_t rank, int64_t ranks) {
    return loader_of(step).batch_at(step, rank, ranks);
  }
  void pass_over(const std::vector<SampleRange>& ranges);
  // The samples of those of these steps that have the length of the last one.
  SampleRange samples_of(int64_t first_step, int64_t last_step) const;
  DataPosition position_before(int64_t step);  // its sequence: of the step before
  double epochs_at(int64_t step) { return loader_of(step).epochs_at(step); }

 private:
  size_t stretch_of(int64_t step) const;
  int64_t first_sample(size_t stretch) const;  // the number with which it begins
  Loader& loader_of(int64_t step);
  std::vector<SampleRange> own_ranges(size_t stretch) const;  // in the numbers of its loader

  std::vector<const TokenDataset*> datasets_;
  std::function<LoaderOptions(int64_t)> options_of_;
  std::vector<SequenceStretch> stretches_;
  std::function<int64_t(int64_t)> first_position_;
  std::vector<SampleRange> skip_;
  struct Made {
    int64_t first_sample = 0;
    std::unique_ptr<Loader> loader;
  };
  std::map<size_t, Made> made_;  // by stretch
  int64_t makings_ = 0;
};

}  // namespace longhaul::data
