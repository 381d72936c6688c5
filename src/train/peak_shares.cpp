#include "train/peak_shares.h"

namespace longhaul::train {

void PeakShares::tell(observe::StepReport& report) {
  if (flops_.causal <= 0) return;
  const double rate = flops_.causal * report.tokens_per_second;
  report.model_flops_per_second = rate;
  if (peak_ <= 0) return;
  const double done = rate + flops_.again * report.tokens_per_second;
  if (done > peak_) {
    peak_ = done;
    report.peak_flops_per_second = peak_;
  }
  report.mfu = rate / peak_;
  report.hfu = done / peak_;
  const double full = flops_.full_attention * report.tokens_per_second / peak_;
  if (full <= 1) report.mfu_full_attention = full;
}

}  // namespace longhaul::train
