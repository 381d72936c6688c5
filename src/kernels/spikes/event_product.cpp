#include "kernels/spikes/event_product.h"

#include <algorithm>
#include <cmath>

#include "base/threads/parallel.h"
#include "kernels/spikes/counts.h"
#include "kernels/spikes/loops.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kColumnsOfEvents = 512;  // whose sums stay in the first cache

struct EventRow {
  const float* counts;
  float threshold;
  float* y;
};

int64_t add_events(Events events, int32_t count, const int8_t* weights, int64_t columns, int32_t* sums) {
  if (events == Events::kCounts) {
    add_event(weights, columns, count, sums);
    return 1;
  }
  int64_t spikes = 0;
  const int32_t sign = count < 0 ? -1 : 1;
  for (int32_t rest = std::abs(count), digit = 1; rest > 0; rest >>= 1, digit <<= 1) {
    if (rest % 2 == 0) continue;
    add_event(weights, columns, sign * digit, sums);
    ++spikes;
  }
  return spikes;
}

// Some columns of one token's product; → events.
int64_t event_columns(const EventWeight& weight, Events events, const EventRow& row, int64_t first,
                      int64_t columns) {
  int32_t sums[kColumnsOfEvents] = {};
  const int8_t* const q = weight.values().const_data_ptr<int8_t>() + first;
  const float* const scales = weight.scales().const_data_ptr<float>() + first;
  float* const y = row.y + first;
  std::fill_n(y, columns, 0.0f);
  int64_t total = 0;
  for (int64_t begin = 0; begin < weight.in(); begin += GroupWeight::kGroup) {
    int64_t in_group = 0;
    for (int64_t i = begin; i < std::min(begin + GroupWeight::kGroup, weight.in()); ++i) {
      const auto count = static_cast<int32_t>(row.counts[i]);
      if (count != 0) in_group += add_events(events, count, q + i * weight.out(), columns, sums);
    }
    total += in_group;
    if (in_group > 0) add_group(scales + begin / GroupWeight::kGroup * weight.out(), columns, sums, y);
  }
  for (int64_t j = 0; j < columns; ++j) y[j] *= row.threshold;
  return total;
}

}  // namespace

EventWeight::EventWeight(const GroupWeight& weight)
    : in_(weight.in()),
      out_(weight.out()),
      q_io_(weight.values(0).t().contiguous()),
      scale_go_(weight.scales(0).t().contiguous()) {}

EventResult event_linear(const Tensor& x, double k, const EventWeight& weight, Events events) {
  const SpikeCounts counts = spike_counts(x, k);
  EventResult result{.y_to = at::empty({x.size(0), weight.out()}, at::kFloat)};
  const float* const from = counts.count_tc.const_data_ptr<float>();
  const float* const thresholds = counts.threshold_t.const_data_ptr<float>();
  float* const to = result.y_to.mutable_data_ptr<float>();
  const int64_t blocks = (weight.out() + kColumnsOfEvents - 1) / kColumnsOfEvents;
  std::vector<int64_t> of_block(static_cast<size_t>(blocks));
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kColumnsOfEvents;
      for (int64_t t = 0; t < x.size(0); ++t) {
        const EventRow row{from + t * weight.in(), thresholds[t], to + t * weight.out()};
        of_block[static_cast<size_t>(block)] +=
            event_columns(weight, events, row, first, std::min(kColumnsOfEvents, weight.out() - first));
      }
    }
  });
  if (blocks > 0) result.events = of_block[0];  // every block sees the same events
  return result;
}

}  // namespace longhaul::kernels
