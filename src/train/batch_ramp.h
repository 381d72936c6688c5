// BatchRamp: a batch that follows what is measured. Every observe.batch_noise_every-th step tells how large a batch is worth its tokens
// (optim/batch_noise.h); with optim.batch_growth the batch doubles from the next step on where
//
//   critical batch ≥ optim.batch_growth · batch      twice the batch ≤ optim.batch_most      20 measurements since it last grew, or since the start
//
// so that no chance measurement doubles it, and no two doublings rest on the same ones. It never shrinks. (MiniMax-01 doubled its batch at numbers of tokens
// that such measurements had given: docs/sources/minimax-01.md §5.2.)
//
// All ranks decide alike, by numbers they all have. Measurements and growth are saved with checkpoints, so that a run that resumes grows where one that went
// on does, and where a rollback goes back the batch goes with it. Ranks arranged otherwise measure otherwise: the smaller of the two batches is a
// micro-batch of each replica.
#pragma once

#include "checkpoint/state.h"
#include "optim/batch_noise.h"
#include "optim/schedule.h"

namespace longhaul::train {

class BatchRamp final : public checkpoint::StateProvider {
 public:
  static constexpr int64_t kMeasurements = 20;

  explicit BatchRamp(const recipe::OptimOptions& optim)
      : growth_(optim.batch_growth), most_(optim.batch_most), same_on_all_(optim.outer.method == recipe::Outer::kNone) {}

  bool follows() const { return growth_ > 0; }
  // Of step `step`, of `batch` sequences; `small.tokens` < `all.tokens`. What the batch grows to behind it, if it does.
  std::optional<int64_t> measured(int64_t step, int64_t batch, const optim::NormOfBatch& small, const optim::NormOfBatch& all);
  std::optional<double> critical_batch() const { return noise_.critical_batch(); }  // tokens
  const std::vector<optim::BatchGrowth>& grown() const { return grown_; }           // in order

  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& facts) override;  // of a checkpoint without: nothing is known

 private:
  double growth_;
  int64_t most_;
  bool same_on_all_;  // what is measured; the workers of an outer loop measure each for itself, and nothing of it is kept
  optim::BatchNoise noise_{static_cast<double>(kMeasurements)};
  int64_t measurements_ = 0;  // since the batch last grew
  std::vector<optim::BatchGrowth> grown_;
};

}  // namespace longhaul::train
