// Embeddings: what is compared between machines. An embedding turns the last `window` samples of every
// machine into `dims` numbers per machine. A channel is an embedding and the metrics that it reads: one
// metric in Minder and RAW, all metrics at once in CON, INT and the joint Mahalanobis baseline. Thread-safe,
// because embeddings have no state.
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
  // window_rows: [window][inputs][stride] → out: [dims][stride]; stride a multiple of kLanes
  // (vector_loops.h).
  virtual void embed(const float* window_rows, int64_t stride, float* out) const = 0;
};

// Apart: how the distance of a machine from the others is measured. Minder uses the sum of its distances from
// all others. The robust z-score is the deviation of the machine's one number from the median, in units of
// 1.4826 · MAD (the median absolute deviation).
enum class Apart { kDistanceSums, kRobustZ };

struct Channel {
  std::string name;  // name of the metric, or of the variant where all metrics are compared together
  std::vector<size_t> metrics;
  std::shared_ptr<const Embedding> embedding;
  Apart apart = Apart::kDistanceSums;  // kRobustZ is for embeddings of one number
};

// RawEmbedding: the samples themselves.
class RawEmbedding final : public Embedding {
 public:
  RawEmbedding(int64_t window, int64_t inputs) : window_(window), inputs_(inputs) {}
  int64_t window() const override { return window_; }
  int64_t dims() const override { return window_ * inputs_; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  int64_t window_, inputs_;
};

// MeanEmbedding: the mean of the samples, one number for one metric.
class MeanEmbedding final : public Embedding {
 public:
  explicit MeanEmbedding(int64_t window) : window_(window) {}
  int64_t window() const override { return window_; }
  int64_t dims() const override { return 1; }
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  int64_t window_;
};

// VaeEmbedding: the reconstruction by the autoencoder of one metric (Minder) or of several metrics in one
// model (INT).
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

// ConcatenatedEmbedding: the embeddings of several metrics, concatenated (CON).
class ConcatenatedEmbedding final : public Embedding {
 public:
  // Each with one input and the same window.
  explicit ConcatenatedEmbedding(std::vector<std::shared_ptr<const Embedding>> parts);
  int64_t window() const override { return parts_.front()->window(); }
  int64_t dims() const override;
  void embed(const float* window_rows, int64_t stride, float* out) const override;

 private:
  std::vector<std::shared_ptr<const Embedding>> parts_;
};

}  // namespace longhaul::detect
