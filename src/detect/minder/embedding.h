// What is compared between machines: an embedding turns the last `window` samples of every machine into `dims` numbers each. A channel is an
// embedding and the metrics it looks at: one metric in Minder and RAW, all of them at once in CON, INT and the joint Mahalanobis baseline.
// Thread-safe: embeddings have no state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "detect/minder/lstm_vae.h"

namespace longhaul::detect {

class Embedding {
 public:
  virtual ~Embedding() = default;
  virtual int64_t window() const = 0;
  virtual int64_t dims() const = 0;
  // window_rows: [window][inputs][stride] → out: [dims][stride]; stride a multiple of kLanes (vector_loops.h).
  virtual void embed(const float* window_rows, int64_t stride, float* out) const = 0;
};

// How far a machine stands apart: by the sum of its distances from all others (Minder), or by its deviation from the median of one number a machine in
// units of 1.4826 · MAD, the median absolute deviation (robust z).
enum class Apart { kDistanceSums, kRobustZ };

struct Channel {
  std::string name;  // the metric's, or that of the variant where all metrics are looked at together
  std::vector<size_t> metrics;
  std::shared_ptr<const Embedding> embedding;
  Apart apart = Apart::kDistanceSums;  // kRobustZ: of an embedding of one number
};

// The samples as they are.
class RawEmbedding final : public Embedding {
 public:
  RawEmbedding(int64_t window, int64_t inputs) : window_(window), inputs_(inputs) {}
  int64_t window() const override { return window_; }
  int64_t dims() const override { return window_ * inputs_; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  int64_t window_, inputs_;
};

// Their mean: one metric, one number.
class MeanEmbedding final : public Embedding {
 public:
  explicit MeanEmbedding(int64_t window) : window_(window) {}
  int64_t window() const override { return window_; }
  int64_t dims() const override { return 1; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  int64_t window_;
};

// What the autoencoder makes of them: one metric (Minder), or several in one model (INT).
class VaeEmbedding final : public Embedding {
 public:
  VaeEmbedding(const VaeShape& shape, std::vector<float> parameters);
  int64_t window() const override { return shape_.window; }
  int64_t dims() const override { return shape_.window * shape_.inputs; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  VaeShape shape_;
  std::vector<float> parameters_;
};

// The embeddings of several metrics behind one another (CON).
class ConcatenatedEmbedding final : public Embedding {
 public:
  explicit ConcatenatedEmbedding(std::vector<std::shared_ptr<const Embedding>> parts);  // of one input and one window each
  int64_t window() const override { return parts_.front()->window(); }
  int64_t dims() const override;
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  std::vector<std::shared_ptr<const Embedding>> parts_;
};

}  // namespace longhaul::detect
