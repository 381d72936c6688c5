#include "detect/despike.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"

namespace longhaul::detect {
namespace {

constexpr int64_t kLanesAtOnce = 64;  // machines at once: a loop of constant length becomes vector minima and maxima

// Bubbles the larger half to the end, all machines of the block side by side; row size / 2 is the median then.
void sort_half(std::span<std::array<float, kLanesAtOnce>> rows) {
  for (size_t end = rows.size(); end > rows.size() / 2; --end) {
    for (size_t i = 1; i < end; ++i) {
      float *low = rows[i - 1].data(), *high = rows[i].data();
      for (int64_t lane = 0; lane < kLanesAtOnce; ++lane) {
        const float a = low[lane], b = high[lane];
        low[lane] = b < a ? b : a;
        high[lane] = b < a ? a : b;
      }
    }
  }
}

}  // namespace

void median_of_rows(std::span<const float* const> rows, int64_t count, float* into) {
  LONGHAUL_ASSERT(rows.size() % 2 == 1 && rows.size() <= static_cast<size_t>(kLongestDespike), "{} rows", rows.size());
  std::array<std::array<float, kLanesAtOnce>, kLongestDespike> block;
  for (int64_t begin = 0; begin < count; begin += kLanesAtOnce) {
    const int64_t width = std::min(kLanesAtOnce, count - begin);
    std::array<float, kLanesAtOnce> sums{};  // NaN where any is
    for (size_t r = 0; r < rows.size(); ++r) {
      std::copy_n(rows[r] + begin, width, block[r].begin());
      std::fill(block[r].begin() + width, block[r].end(), 0.0f);
      for (size_t lane = 0; lane < kLanesAtOnce; ++lane) sums[lane] += block[r][lane];
    }
    sort_half({block.data(), rows.size()});
    for (int64_t i = 0; i < width; ++i) {
      const float sum = sums[static_cast<size_t>(i)];
      into[begin + i] = sum == sum ? block[rows.size() / 2][static_cast<size_t>(i)] : rows.back()[begin + i];
    }
  }
}

void refuse_span(int64_t span) {
  if (span >= 1 && span <= kLongestDespike && span % 2 == 1) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "no median of so many seconds",
               .expected = fmt::format("an odd number, 1 (samples as they are) to {}", kLongestDespike),
               .found = fmt::format("{}", span),
               .where = "--despike"});
}

void despike(Pull& pull, int64_t span) {
  if (span <= 1) return;
  std::vector<float> smooth(pull.values.size());
  parallel_items(static_cast<int64_t>(pull.metrics.size()) * pull.seconds, threads(), [&](const auto& each) {
    std::vector<const float*> rows(static_cast<size_t>(span));
    each([&](int64_t item) {
      const auto metric = static_cast<size_t>(item / pull.seconds);
      const int64_t second = item % pull.seconds;
      for (int64_t i = 0; i < span; ++i) rows[static_cast<size_t>(i)] = pull.row(metric, std::max<int64_t>(0, second - span + 1 + i));
      median_of_rows(rows, pull.count(), smooth.data() + item * pull.count());
    });
  });
  pull.values = std::move(smooth);
}

}  // namespace longhaul::detect
