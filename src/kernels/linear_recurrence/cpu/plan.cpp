#include "kernels/linear_recurrence/cpu/plan.h"

#include <algorithm>

#include "kernels/linear_recurrence/work.h"

namespace longhaul::kernels {
namespace {

// backward holds this many states per thread in the cache
constexpr int64_t kSegmentBlocks = 8;
constexpr double kBytesPerSecond = 1e10;             // of one thread to memory
constexpr double kTwoPassBytes = 512.0 * (1 << 20);  // more than this is not kept

// The products within a block grow with it, the work on states shrinks. Measured on Zen 4 (docs/log.md): 32
// for up to 64 × 64 channels, 64 above; where products are several times faster than there (AMX), the work on
// states decides.
int64_t best_block(const RecurrenceCost& cost) {
  return cost.key * cost.value <= 64 * 64 && cost.flops_per_second < 3e11 ? 32 : 64;
}

// Seconds per token and head of the products that read the state and of those that write to it.
struct Rates {
  double read, write, keep;
};

Rates rates_of(int64_t block, const RecurrenceCost& cost) {
  const double area = static_cast<double>(cost.key) * static_cast<double>(cost.value);
  const double write = 2 * area,
               all = forward_work({.block = block, .keys = cost.key, .values = cost.value, .computed = 0.75})
                         .flops;
  return {(all - write) / cost.flops_per_second, write / cost.flops_per_second,
          8 * area / static_cast<double>(block) / kBytesPerSecond};
}

RecurrenceExecution cheapest(const RecurrencePlan& plan, std::span<const int64_t> offsets,
                             const RecurrenceCost& cost) {
  int64_t longest = 0;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) longest = std::max(longest, offsets[n + 1] - offsets[n]);
  const Rates rates = rates_of(plan.block, cost);
  const double tokens = static_cast<double>(offsets.back() * cost.sequences_per_document),
               threads = static_cast<double>(cost.threads);
  const double fused = std::max(tokens / threads, static_cast<double>(longest)) * (rates.read + rates.write);
  const double segment = static_cast<double>(std::min(longest, plan.block * plan.segment_blocks));
  const double shared = std::max(tokens / threads, segment);
  const double segmented = shared * (rates.read + 2 * rates.write);
  const double two_pass = shared * (rates.read + rates.write + rates.keep);
  const double kept_bytes =
      4.0 * static_cast<double>(plan.blocks * cost.sequences_per_document * cost.key * cost.value);
  if (plan.slots == 0 || fused <= std::min(segmented, two_pass)) return RecurrenceExecution::kFused;
  return two_pass < segmented && kept_bytes <= kTwoPassBytes ? RecurrenceExecution::kTwoPass
                                                             : RecurrenceExecution::kSegmented;
}

}  // namespace

RecurrencePlan plan_recurrence(std::span<const int64_t> offsets, int64_t block, RecurrenceExecution execution,
                               const RecurrenceCost& cost, int64_t segment) {
  RecurrencePlan plan{.block = block == 0 ? best_block(cost) : block, .segment_blocks = kSegmentBlocks};
  if (segment > 0) plan.segment_blocks = (segment + plan.block - 1) / plan.block;
  const int64_t span = plan.block * plan.segment_blocks;
  plan.first_segment.push_back(0);
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t length = offsets[n + 1] - offsets[n];
    for (int64_t start = 0; start < length; start += span) {
      const int64_t part = std::min(span, length - start);
      plan.segments.push_back({static_cast<int64_t>(n), start, part, start == 0 ? -1 : plan.slots++,
                               plan.blocks, start + part == length});
      plan.blocks += (part + plan.block - 1) / plan.block;
    }
    plan.first_segment.push_back(static_cast<int64_t>(plan.segments.size()));
  }
  plan.execution = execution == RecurrenceExecution::kAuto ? cheapest(plan, offsets, cost) : execution;
  return plan;
}

}  // namespace longhaul::kernels
