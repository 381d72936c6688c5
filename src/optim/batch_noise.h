// BatchNoise: how large a batch is worth its tokens, from the gradient norms of two batch sizes at the same weights. A gradient is the true one plus
// noise that shrinks with the batch, E|G_B|² = |G|² + S/B, so two sizes b < B give both (McCandlish et al. 2018, arXiv 1812.06162, appendix A.1):
//
//   |G|² = (B·|G_B|² − b·|G_b|²) / (B − b)        S = (|G_b|² − |G_B|²) / (1/b − 1/B)        critical batch = S / |G|²
//
// Below the critical batch a doubled batch nearly halves the steps that are needed; above it tokens are wasted. One pair is noisy, and may even be
// negative: |G|² and S are averaged each, and only then divided. Batches are counted in tokens. Plain values, one thread.
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
  // recent: over about how many measurements is averaged.
  explicit BatchNoise(double recent = 20) : kept_(1 - 1 / recent) {}
  void add(const NormOfBatch& small, const NormOfBatch& large);  // small.tokens < large.tokens
  std::optional<double> critical_batch() const;                  // tokens; nothing: not measured, or the noise hides the gradient

  // Weighted sums of |G|² and S, of which only the quotient counts: all that a later object needs to go on from this one.
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
