#include "kernels/spikes/statistics.h"

#include <algorithm>

namespace longhaul::kernels {

double SpikeSums::up_to(size_t size) const {
  double sum = 0;
  for (size_t i = 0; i <= std::min(size, kSpikeSizes - 2); ++i) sum += sizes[i];
  return share(sum);
}

double SpikeSums::mean_spikes_of_firing() const {
  const double firing = counts - sizes[0];
  return firing > 0 ? spikes / firing : 0;
}

double SpikeSums::sparsity_of_trains() const { return step_channels > 0 ? 1 - spikes / step_channels : 1; }

void SpikeStatistics::add(const std::string& matrix, const Tensor& count) {
  const at::NoGradGuard no_gradient;
  OfMatrix& of = matrices_[matrix];
  if (count.numel() == 0) return;
  const Tensor size = count.abs();
  const Tensor histogram =
      size.clamp_max(static_cast<double>(kSpikeSizes - 1)).to(at::kLong).flatten().bincount({}, kSpikeSizes);
  for (size_t i = 0; i < kSpikeSizes; ++i)
    of.sums.sizes[i] += static_cast<double>(histogram[static_cast<int64_t>(i)].item<int64_t>());
  of.sums.counts += static_cast<double>(count.numel());
  of.sums.spikes += static_cast<double>(spikes_of(count, coding_).sum().item<int64_t>());
  of.sums.step_channels += static_cast<double>(steps_of(count, coding_).sum().item<int64_t>()) *
                           static_cast<double>(count.size(1));
  of.sums.largest = std::max(of.sums.largest, size.amax().item<double>());
  keep_some(matrix, of, count);
  const Tensor fired = size.gt(0).any(0);
  of.fired_c = of.fired_c.defined() ? of.fired_c.logical_or(fired) : fired;
}

void SpikeStatistics::keep(const std::string& part, int64_t tokens, int64_t channels) {
  kept_part_ = part;
  kept_tokens_ = tokens;
  kept_channels_ = channels;
}

void SpikeStatistics::keep_some(const std::string& matrix, OfMatrix& of, const Tensor& count) const {
  const int64_t there = of.kept_tc.defined() ? of.kept_tc.size(0) : 0;
  if (there >= kept_tokens_ || matrix.find(kept_part_) == std::string::npos) return;
  const Tensor some = count.narrow(0, 0, std::min(kept_tokens_ - there, count.size(0)))
                          .narrow(1, 0, std::min(kept_channels_, count.size(1)));
  of.kept_tc = there == 0 ? some.clone() : at::cat({of.kept_tc, some});
}

void SpikeStatistics::add_squares(const std::string& matrix, const Tensor& count, const Tensor& threshold) {
  const at::NoGradGuard no_gradient;
  OfMatrix& of = matrices_[matrix];
  const Tensor sum = count.mul(threshold.unsqueeze(1)).to(at::kDouble).square().sum(0);
  of.square_c = of.square_c.defined() ? of.square_c.add(sum) : sum;
  of.tokens += count.size(0);
}

std::map<std::string, Tensor> SpikeStatistics::mean_squares() const {
  std::map<std::string, Tensor> means;
  for (const auto& [name, matrix] : matrices_) {
    if (matrix.tokens > 0) means[name] = matrix.square_c.div(static_cast<double>(matrix.tokens));
  }
  return means;
}

std::vector<std::pair<std::string, Tensor>> SpikeStatistics::kept() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, matrix] : matrices_) {
    if (matrix.kept_tc.defined()) all.emplace_back(name, matrix.kept_tc);
  }
  return all;
}

SpikeSums SpikeStatistics::with_channels(const OfMatrix& matrix) {
  SpikeSums sums = matrix.sums;
  if (!matrix.fired_c.defined()) return sums;
  sums.channels = matrix.fired_c.numel();
  sums.never_fired = sums.channels - matrix.fired_c.sum().item<int64_t>();
  return sums;
}

SpikeSums SpikeStatistics::total() const {
  SpikeSums all;
  for (const auto& [name, matrix] : matrices_) {
    const SpikeSums sums = with_channels(matrix);
    all.counts += sums.counts, all.spikes += sums.spikes, all.step_channels += sums.step_channels;
    for (size_t i = 0; i < kSpikeSizes; ++i) all.sizes[i] += sums.sizes[i];
    all.largest = std::max(all.largest, sums.largest);
    all.channels += sums.channels, all.never_fired += sums.never_fired;
  }
  return all;
}

std::vector<std::pair<std::string, SpikeSums>> SpikeStatistics::of_matrices() const {
  std::vector<std::pair<std::string, SpikeSums>> all;
  for (const auto& [name, matrix] : matrices_) all.emplace_back(name, with_channels(matrix));
  return all;
}

SpikeEnergy energy_of(const SpikeSums& sums) {
  return {.spiking = sums.mean_spikes() * SpikeEnergy::kInt8Sum};
}

}  // namespace longhaul::kernels
