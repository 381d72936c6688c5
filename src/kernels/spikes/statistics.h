// SpikeStatistics: what the inputs of a model's matrices look like as spikes, over everything that was
// computed while they were gathered, matrix by matrix and in sum; and what a model of energy says of it.
//
// The paper (arXiv 2509.05276 §5) counts sparsity over a window of three steps, since most counts have three
// binary digits, and does not say whether its mean of spikes is one over all counts or over those that fire;
// so both are here:
//   sparsity            1 − (mean spikes of a count) / 3
//   sparsity_of_firing  1 − (mean spikes of a count that is not 0) / 3
// sparsity_of_trains is 1 − spikes / (steps · channels) with each token's own steps. Not thread-safe.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "kernels/spikes/codings.h"

namespace longhaul::kernels {

inline constexpr size_t kSpikeSizes = 18;  // |count| 0 … 16, and beyond
inline constexpr double kSpikeWindow = 3;

struct SpikeSums {
  double counts = 0;  // tokens · channels
  double spikes = 0, step_channels = 0;
  std::array<double, kSpikeSizes> sizes{};  // by |count|
  double largest = 0;
  int64_t channels = 0, never_fired = 0;  // channels, and those whose counts were all 0

  double silent_share() const { return share(sizes[0]); }
  double up_to(size_t size) const;  // the share of counts with |count| ≤ size (at most 16)
  double mean_spikes() const { return share(spikes); }
  double mean_spikes_of_firing() const;
  double sparsity() const { return 1 - mean_spikes() / kSpikeWindow; }
  double sparsity_of_firing() const { return 1 - mean_spikes_of_firing() / kSpikeWindow; }
  double sparsity_of_trains() const;
  double share(double part) const { return counts > 0 ? part / counts : 0; }
};

class SpikeStatistics {
 public:
  explicit SpikeStatistics(Coding coding) : coding_(coding) {}
  Coding coding() const { return coding_; }
  // The counts [tokens, channels] that a matrix reads.
  void add(const std::string& matrix, const Tensor& count_tc);
  // From now on keeps the first channels' counts of the first tokens, of matrices whose names contain `part`.
  void keep(const std::string& part, int64_t tokens, int64_t channels);
  std::vector<std::pair<std::string, Tensor>> kept() const;  // counts [tokens, channels], by name
  // From now on squares what the matrices read, count · threshold, and nothing else is gathered.
  void gather_squares() { squares_ = true; }
  bool gathers_squares() const { return squares_; }
  void add_squares(const std::string& matrix, const Tensor& count_tc, const Tensor& threshold_t);
  std::map<std::string, Tensor> mean_squares() const;  // fp64 [channels], by matrix
  SpikeSums total() const;
  std::vector<std::pair<std::string, SpikeSums>> of_matrices() const;  // by name

 private:
  struct OfMatrix {
    SpikeSums sums;
    Tensor fired_c;  // bool
    Tensor kept_tc;
    Tensor square_c;  // fp64: the sum over tokens
    int64_t tokens = 0;
  };
  void keep_some(const std::string& matrix, OfMatrix& of, const Tensor& count_tc) const;
  static SpikeSums with_channels(const OfMatrix& matrix);
  Coding coding_;
  std::string kept_part_;
  int64_t kept_tokens_ = 0, kept_channels_ = 0;
  bool squares_ = false;
  std::map<std::string, OfMatrix> matrices_;
};

// A model, not a measurement: what one weight's use costs in 45 nm circuits by the figures of M. Horowitz
// (ISSCC 2014) as SpikingBrain takes them; memory and control, which cost most, are left out.
struct SpikeEnergy {
  static constexpr double kFp16Product = 1.5, kInt8Product = 0.23, kInt8Sum = 0.03;  // pJ
  double spiking = 0;                                                                // pJ
  double over_fp16() const { return kFp16Product / spiking; }
  double over_int8() const { return kInt8Product / spiking; }
};
SpikeEnergy energy_of(const SpikeSums& sums);

}  // namespace longhaul::kernels
