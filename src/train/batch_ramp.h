// BatchRamp: lets the batch size follow the measured gradient noise. Every observe.batch_noise_every steps, a
// measurement estimates the critical batch size (optim/batch_noise.h). With optim.batch_growth set, the batch
// doubles from the next step on when all of these hold:
//
//   critical batch ≥ optim.batch_growth · batch      twice the batch ≤ optim.batch_most
//   20 measurements since the last growth, or since the start
//
// The third condition keeps a single noisy measurement from doubling the batch, and keeps two doublings from
// using the same measurements. The batch never shrinks. MiniMax-01 doubled its batch at token counts that
// such measurements had given (docs/sources/minimax-01.md §5.2).
// All ranks decide alike, because all have the same numbers. Measurements and growth are saved with
// checkpoints: a resumed run grows where an uninterrupted one does, and a rollback takes the batch back as
// well. Another arrangement of ranks measures other values, because the smaller of the two compared batches
// is one micro-batch of each replica.
#pragma once

#include "checkpoint/state.h"
#include "optim/batch_noise.h"
#include "optim/schedule.h"

namespace longhaul::train {

class BatchRamp final : public checkpoint::StateProvider {
 public:
  static constexpr int64_t kMeasurements = 20;

  explicit BatchRamp(const recipe::OptimOptions& optim)
      : growth_(optim.batch_growth),
        most_(optim.batch_most),
        same_on_all_(optim.outer.method == recipe::Outer::kNone) {}

  bool follows() const { return growth_ > 0; }
  // Takes the measurement of step `step`, whose batch has `batch` sequences; `small.tokens` < `all.tokens`.
  // Returns the batch that the next step has, if it grows.
  std::optional<int64_t> measured(int64_t step, int64_t batch, const optim::NormOfBatch& small,
                                  const optim::NormOfBatch& all);
  std::optional<double> critical_batch() const { return noise_.critical_batch(); }  // tokens
  const std::vector<optim::BatchGrowth>& grown() const { return grown_; }           // in order

  nlohmann::json facts() override;
  // a checkpoint without these facts clears everything
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  double growth_;
  int64_t most_;
  // what is measured; the workers of an outer loop measure each for itself, and nothing of it is kept
  bool same_on_all_;
  optim::BatchNoise noise_{static_cast<double>(kMeasurements)};
  int64_t measurements_ = 0;  // since the batch last grew
  std::vector<optim::BatchGrowth> grown_;
};

}  // namespace longhaul::train
