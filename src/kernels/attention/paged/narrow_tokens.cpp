#include "kernels/attention/paged/narrow_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/threads/parallel.h"

namespace longhaul::kernels {
namespace {

constexpr float kMostOfToken = 127;
constexpr int64_t kNarrowGrain = 1 << 14;  // numbers worth a thread

// → the scale. Adding and taking away 1.5 · 2^23 rounds to whole numbers, ties to even.
float narrow_row(const float* x, int64_t channels, int8_t* q) {
  constexpr float kRounder = 12582912.0f;
  float largest = 0;
  bool finite = true;
  for (int64_t c = 0; c < channels; ++c) {
    largest = std::max(largest, std::abs(x[c]));
    finite = finite && std::isfinite(x[c]);
  }
  if (!finite) {
    std::fill_n(q, channels, int8_t{1});
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float scale = largest / kMostOfToken;
  if (scale < std::numeric_limits<float>::min()) {
    std::fill_n(q, channels, int8_t{0});
    return 0;
  }
  for (int64_t c = 0; c < channels; ++c)
    q[c] = static_cast<int8_t>(static_cast<int32_t>(x[c] / scale + kRounder - kRounder));
  return scale;
}

}  // namespace

void write_narrow_tokens(const Tensor& page, const Tensor& scales, int64_t at, const Tensor& x) {
  const int64_t heads = x.size(1), channels = x.size(2), page_tokens = page.size(1);
  const Tensor wide = x.to(at::kFloat).contiguous();
  const float* const from = wide.const_data_ptr<float>();
  auto* const to = page.mutable_data_ptr<int8_t>();
  auto* const scale = scales.mutable_data_ptr<float>();
  const int64_t grain = std::max<int64_t>(1, kNarrowGrain / std::max<int64_t>(1, channels));
  parallel_for(0, x.size(0) * heads, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = row % heads * page_tokens + at + row / heads;
      scale[place] = narrow_row(from + row * channels, channels, to + place * channels);
    }
  });
}

}  // namespace longhaul::kernels
