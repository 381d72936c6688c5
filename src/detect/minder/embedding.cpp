#include "detect/minder/embedding.h"

#include <algorithm>

#include "base/error.h"
#include "detect/minder/vector_loops.h"

namespace longhaul::detect {

void RawEmbedding::embed(const float* window_rows, int64_t stride, float* out) const {
  std::copy(window_rows, window_rows + dims() * stride, out);
}

void MeanEmbedding::embed(const float* window_rows, int64_t stride, float* out) const {
  std::fill(out, out + stride, 0.0f);
  for (int64_t t = 0; t < window_; ++t) {
    for (int64_t i = 0; i < stride; ++i) out[i] += window_rows[t * stride + i] / static_cast<float>(window_);
  }
}

VaeEmbedding::VaeEmbedding(const VaeShape& shape, std::vector<float> parameters)
    : shape_(shape), parameters_(std::move(parameters)) {
  LONGHAUL_ASSERT(static_cast<int64_t>(parameters_.size()) == shape.parameters(), "{} parameters",
                  parameters_.size());
}

void VaeEmbedding::embed(const float* window_rows, int64_t stride, float* out) const {
  reconstruct(shape_, parameters_, window_rows, stride, out);
}

ConcatenatedEmbedding::ConcatenatedEmbedding(std::vector<std::shared_ptr<const Embedding>> parts)
    : parts_(std::move(parts)) {
  for (const auto& part : parts_) LONGHAUL_ASSERT(part->window() == window());
}

int64_t ConcatenatedEmbedding::dims() const {
  int64_t sum = 0;
  for (const auto& part : parts_) sum += part->dims();
  return sum;
}

void ConcatenatedEmbedding::embed(const float* window_rows, int64_t stride, float* out) const {
  const auto inputs = static_cast<int64_t>(parts_.size());
  std::vector<float> one(static_cast<size_t>(window() * stride));
  for (int64_t q = 0; q < inputs; ++q) {
    for (int64_t t = 0; t < window(); ++t) {
      const float* row = window_rows + (t * inputs + q) * stride;
      std::copy(row, row + stride, one.data() + t * stride);
    }
    const Embedding& part = *parts_[static_cast<size_t>(q)];
    part.embed(one.data(), stride, out);
    out += part.dims() * stride;
  }
}

}  // namespace longhaul::detect
