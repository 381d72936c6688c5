#include "detect/trials/mahalanobis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "detect/minder/vector_loops.h"

namespace longhaul::detect {
namespace {

constexpr int64_t kDraws = 4096;  // windows that the statistics are taken from

// The windows of one machine each, side by side as rows of `kDraws` floats.
std::vector<float> drawn_windows(std::span<const Pull> pulls, const std::vector<size_t>& wanted,
                                 int64_t window, uint64_t seed) {
  const RandomStream stream(seed, "detect/mahalanobis");
  const auto inputs = static_cast<int64_t>(wanted.size());
  std::vector<float> rows(static_cast<size_t>(window * inputs * kDraws), 0.5f);
  uint64_t at = 0;
  for (int64_t draw = 0, tries = 0; draw < kDraws && tries < 20 * kDraws; ++tries) {
    const Pull& pull = pulls[stream.below(at++, pulls.size())];
    if (pull.seconds < window) continue;
    const auto machine = static_cast<int64_t>(stream.below(at++, static_cast<uint64_t>(pull.count())));
    const auto second =
        static_cast<int64_t>(stream.below(at++, static_cast<uint64_t>(pull.seconds - window + 1)));
    bool whole = true;
    for (int64_t q = 0; q < inputs && whole; ++q) {
      const auto found = std::find(pull.metrics.begin(), pull.metrics.end(), wanted[static_cast<size_t>(q)]);
      whole = found != pull.metrics.end();
      for (int64_t t = 0; whole && t < window; ++t) {
        const float value = pull.row(static_cast<size_t>(found - pull.metrics.begin()), second + t)[machine];
        whole = !std::isnan(value);
        rows[static_cast<size_t>((t * inputs + q) * kDraws + draw)] = value;
      }
    }
    if (whole) ++draw;
  }
  return rows;
}

}  // namespace

void window_features(const MahalanobisShape& shape, const float* window_rows, int64_t stride, float* out) {
  const auto w = static_cast<float>(shape.window);
  for (int64_t q = 0; q < shape.inputs; ++q) {
    float* features = out + q * shape.moments * stride;
    std::fill(features, features + shape.moments * stride, 0.0f);
    const auto row_of = [&](int64_t t) { return window_rows + (t * shape.inputs + q) * stride; };
    for (int64_t t = 0; t < shape.window; ++t) {
      for (int64_t i = 0; i < stride; ++i) features[i] += row_of(t)[i] / w;
    }
    for (int64_t t = 0; shape.moments > 1 && t < shape.window; ++t) {
      const float* row = row_of(t);
      for (int64_t i = 0; i < stride; ++i) {
        const float difference = row[i] - features[i], square = difference * difference;
        features[stride + i] += square / w;
        if (shape.moments < 4) continue;
        features[2 * stride + i] += square * difference / w;
        features[3 * stride + i] += square * square / w;
      }
    }
    for (int64_t i = 0; shape.moments == 4 && i < stride; ++i) {
      const float variance = features[stride + i] + 1e-8f;
      features[2 * stride + i] /= variance * std::sqrt(variance);
      features[3 * stride + i] /= variance * variance;
    }
  }
}

Eigen symmetric_eigen(std::vector<double> a, int64_t n) {
  std::vector<double> v(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) v[static_cast<size_t>(i * n + i)] = 1;
  const auto at = [&](std::vector<double>& m, int64_t i, int64_t j) -> double& {
    return m[static_cast<size_t>(i * n + j)];
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) off += at(a, p, q) * at(a, p, q);
    }
    if (off < 1e-24) break;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (at(a, p, q) == 0) continue;
        const double theta = (at(a, q, q) - at(a, p, p)) / (2 * at(a, p, q));
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1)),
                     c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t k = 0; k < n; ++k) {
          const double x = at(a, k, p), y = at(a, k, q);
          at(a, k, p) = c * x - s * y, at(a, k, q) = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = at(a, p, k), y = at(a, q, k);
          at(a, p, k) = c * x - s * y, at(a, q, k) = s * x + c * y;
          const double e = at(v, p, k), f = at(v, q, k);
          at(v, p, k) = c * e - s * f, at(v, q, k) = s * e + c * f;
        }
      }
    }
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return at(a, i, i) > at(a, j, j); });
  Eigen result;
  for (const int64_t i : order) {
    result.values.push_back(at(a, i, i));
    result.vectors.insert(result.vectors.end(), v.begin() + i * n, v.begin() + (i + 1) * n);
  }
  return result;
}

MahalanobisModel fit_mahalanobis(std::span<const Pull> pulls, const std::vector<size_t>& wanted,
                                 MahalanobisShape shape, uint64_t seed) {
  shape.inputs = static_cast<int64_t>(wanted.size());
  shape.axes = std::min(shape.axes, shape.features());
  const int64_t f = shape.features();
  const std::vector<float> rows = drawn_windows(pulls, wanted, shape.window, seed);
  std::vector<float> features(static_cast<size_t>(f * kDraws));
  window_features(shape, rows.data(), kDraws, features.data());

  MahalanobisModel model{.shape = shape};
  for (int64_t k = 0; k < f; ++k) {
    float* row = features.data() + k * kDraws;
    const double mean = std::accumulate(row, row + kDraws, 0.0) / kDraws;
    double square = 0;
    for (int64_t i = 0; i < kDraws; ++i) square += (row[i] - mean) * (row[i] - mean);
    const double deviation = std::sqrt(square / kDraws) + 1e-9;
    model.mean.push_back(static_cast<float>(mean));
    model.scale.push_back(static_cast<float>(deviation));
    for (int64_t i = 0; i < kDraws; ++i) row[i] = static_cast<float>((row[i] - mean) / deviation);
  }
  std::vector<double> covariance(static_cast<size_t>(f * f));
  for (int64_t i = 0; i < f; ++i) {
    for (int64_t j = 0; j < f; ++j) {
      const float *a = features.data() + i * kDraws, *b = features.data() + j * kDraws;
      covariance[static_cast<size_t>(i * f + j)] = std::inner_product(a, a + kDraws, b, 0.0) / kDraws;
    }
  }
  const Eigen eigen = symmetric_eigen(std::move(covariance), f);
  for (int64_t axis = 0; axis < shape.axes; ++axis) {
    const double scale = 1 / std::sqrt(std::max(0.0, eigen.values[static_cast<size_t>(axis)]) + 1e-6);
    for (int64_t k = 0; k < f; ++k)
      model.projection.push_back(
          static_cast<float>(scale * eigen.vectors[static_cast<size_t>(axis * f + k)]));
  }
  return model;
}

void MahalanobisEmbedding::embed(const float* window_rows, int64_t stride, float* out) const {
  const int64_t f = model_.shape.features();
  std::vector<float> features(static_cast<size_t>(f * stride));
  window_features(model_.shape, window_rows, stride, features.data());
  std::fill(out, out + dims() * stride, 0.0f);
  for (int64_t axis = 0; axis < dims(); ++axis) {
    for (int64_t k = 0; k < f; ++k) {
      const auto at = static_cast<size_t>(k);
      const float weight = model_.projection[static_cast<size_t>(axis * f + k)] / model_.scale[at],
                  mean = model_.mean[at];
      for (int64_t i = 0; i < stride; ++i)
        out[axis * stride + i] += weight * (features[static_cast<size_t>(k * stride + i)] - mean);
    }
  }
}

}  // namespace longhaul::detect
