// BatchNoise: estimates the batch size up to which a larger batch uses its tokens well, from the gradient
// norms of two batch sizes at the same weights. A measured gradient is the true gradient plus noise that
// shrinks with the batch, E|G_B|² = |G|² + S/B, so two sizes b < B give both |G|² and S (McCandlish et al.
// 2018, arXiv 1812.06162, appendix A.1):
//
//   |G|² = (B·|G_B|² − b·|G_b|²) / (B − b)        S = (|G_b|² − |G_B|²) / (1/b − 1/B)
//   critical batch = S / |G|²
//
// Below the critical batch, doubling the batch nearly halves the steps that are needed; above it, tokens
// are wasted. One pair is noisy, and its estimates may even be negative; therefore |G|² and S are averaged
// separately and divided only afterwards. Batches are counted in tokens. Plain values; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

namespace longhaul::optim {

struct NormOfBatch {
  double tokens = 0;
  double norm = 0;  // of the mean gradient
};

class BatchNoise {
 public:
  // recent: about how many measurements the averages cover.
  explicit BatchNoise(double recent = 20) : kept_(1 - 1 / recent) {}
  void add(const NormOfBatch& small, const NormOfBatch& large);  // small.tokens < large.tokens
  // In tokens; nothing when it was not measured yet, or when the noise hides the gradient.
  std::optional<double> critical_batch() const;

  // Weighted sums of |G|² and S; only their quotient matters. A later object needs nothing else to continue
  // from this one.
  struct Sums {
    double gradient = 0, noise = 0;
    bool operator==(const Sums&) const = default;
  };
  const Sums& sums() const { return sums_; }
  void restore(const Sums& sums) { sums_ = sums; }

 private:
  double kept_;
  Sums sums_;
};

}  // namespace longhaul::optim
