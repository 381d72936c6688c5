// The baseline against which Minder is measured: statistics of each machine's last samples (mean, variance,
// skewness, kurtosis), standardised, projected on their principal axes, and compared by Mahalanobis distance.
// The projection is scaled so that this distance is the Euclidean one; all later stages (scores, continuity,
// thresholds) are the same code as for Minder.
#pragma once

#include <span>

#include "detect/minder/embedding.h"
#include "detect/samples/samples.h"

namespace longhaul::detect {

struct MahalanobisShape {
  int64_t moments = 2;  // 1: mean; 2: mean and variance; 4: also skewness and kurtosis
  int64_t window = 30;  // seconds
  int64_t axes = 4;     // at most as many as there are features
  int64_t inputs = 1;   // metrics

  int64_t features() const { return moments * inputs; }
};

struct MahalanobisModel {
  MahalanobisShape shape;
  std::vector<float> mean, scale;  // of the features in the training data
  std::vector<float> projection;   // [axes][features], scaled by 1/√(variance along the axis + 1e−6)
};

// Fits to the features of windows drawn from the pulls. `metrics`: the metrics to use.
MahalanobisModel fit_mahalanobis(std::span<const Pull> pulls, const std::vector<size_t>& metrics,
                                 MahalanobisShape shape, uint64_t seed);

class MahalanobisEmbedding final : public Embedding {
 public:
  explicit MahalanobisEmbedding(MahalanobisModel model) : model_(std::move(model)) {}
  int64_t window() const override { return model_.shape.window; }
  int64_t dims() const override { return model_.shape.axes; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  MahalanobisModel model_;
};

// [window][inputs][stride] → [inputs · moments][stride]
void window_features(const MahalanobisShape& shape, const float* window_rows, int64_t stride, float* out);

// Eigenvalues (descending) and eigenvectors (rows) of a symmetric matrix, by Jacobi rotations.
struct Eigen {
  std::vector<double> values, vectors;
};
Eigen symmetric_eigen(std::vector<double> matrix, int64_t size);

}  // namespace longhaul::detect
