#include "kernels/linear_recurrence/cpu/plan.h"

#include <gtest/gtest.h>

#include "kernels/linear_recurrence/work.h"

namespace longhaul::kernels::linear_recurrence_plan_test {
namespace {

RecurrencePlan plan_of(const std::vector<int64_t>& offsets, int64_t heads, int64_t threads,
                       double flops_per_second = 1e11) {
  return plan_recurrence(offsets, 0, RecurrenceExecution::kAuto,
                         {.sequences_per_document = heads,
                          .key = 64,
                          .value = 64,
                          .threads = threads,
                          .flops_per_second = flops_per_second});
}

// The table of docs/sources/linear-attention.md §2.1, d_k = d_v = 128, bf16.
TEST(RecurrenceWork, EqualsTheTableOfTheSpecification) {
  const std::tuple<int64_t, double, double> rows[] = {
      {64, 98304, 245760}, {128, 131072, 327680}, {256, 196608, 491520}};
  for (const auto& [block, forward, backward] : rows) {
    const RecurrenceShape shape{.block = block, .keys = 128, .values = 128};
    EXPECT_EQ(forward_work(shape).flops, forward);
    EXPECT_EQ(backward_work(shape).flops, backward);
    EXPECT_EQ(backward_work(shape).flops, 2.5 * forward_work(shape).flops);
    EXPECT_EQ(forward_work(shape).bytes, 1024);
    EXPECT_EQ(backward_work(shape, 2).bytes, 2560);
  }
}

// A decay per channel is fp32: 4 d_k more to read, 8 d_k in the backward pass; leaving out half of the scores
// halves only their products.
TEST(RecurrenceWork, CountsDecaysAndSkippedScores) {
  const RecurrenceShape plain{.block = 64, .keys = 32, .values = 96},
      gated{.block = 64, .keys = 32, .values = 96, .computed = 0.5, .decay_bytes = 128};
  EXPECT_EQ(forward_work(gated).bytes - forward_work(plain).bytes, 128);
  EXPECT_EQ(backward_work(gated).bytes - backward_work(plain).bytes, 256);
  EXPECT_EQ(forward_work(plain).flops - forward_work(gated).flops, 64 * (32 + 96));
  EXPECT_EQ(backward_work(plain).bytes, 2 * (4 * 32 + 3 * 96));
}

TEST(RecurrencePlan, SegmentsTileTheDocuments) {
  const std::vector<int64_t> offsets{0, 0, 1, 513, 513, 1537, 1538};
  const auto plan = plan_recurrence(offsets, 64, RecurrenceExecution::kSegmented, {});
  ASSERT_EQ(plan.first_segment.size(), offsets.size());
  int64_t slots = 0, blocks = 0;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    int64_t covered = 0;
    for (int64_t i = plan.first_segment[n]; i < plan.first_segment[n + 1]; ++i) {
      const auto& segment = plan.segments[static_cast<size_t>(i)];
      EXPECT_EQ(segment.document, static_cast<int64_t>(n));
      EXPECT_EQ(segment.start, covered);
      EXPECT_EQ(segment.first_block, blocks);
      EXPECT_EQ(segment.slot, covered == 0 ? -1 : slots++);
      EXPECT_GT(segment.length, 0);
      EXPECT_LE(segment.length, plan.block * plan.segment_blocks);
      covered += segment.length;
      blocks += (segment.length + plan.block - 1) / plan.block;
      EXPECT_EQ(segment.last, covered == offsets[n + 1] - offsets[n]);
    }
    EXPECT_EQ(covered, offsets[n + 1] - offsets[n]);
  }
  EXPECT_EQ(plan.slots, slots);
  EXPECT_EQ(plan.blocks, blocks);
}

TEST(RecurrencePlan, HasSegmentsOfTheTokensThatAreAskedFor) {
  const auto lengths = [](int64_t block, int64_t segment) {
    std::vector<int64_t> all;
    const std::vector<int64_t> offsets{0, 200};
    const auto plan = plan_recurrence(offsets, block, RecurrenceExecution::kFused, {}, segment);
    for (const RecurrenceSegment& each : plan.segments) all.push_back(each.length);
    return all;
  };
  EXPECT_EQ(lengths(32, 64), (std::vector<int64_t>{64, 64, 64, 8}));
  EXPECT_EQ(lengths(64, 64), (std::vector<int64_t>{64, 64, 64, 8}));
  EXPECT_EQ(lengths(128, 64), (std::vector<int64_t>{128, 72})) << "a block at least";
  EXPECT_EQ(lengths(32, 65), (std::vector<int64_t>{96, 96, 8}));
  EXPECT_EQ(lengths(16, 0), (std::vector<int64_t>{128, 72})) << "eight blocks";
}

TEST(RecurrencePlan, FusesWhileHeadsAndDocumentsKeepTheThreadsBusy) {
  EXPECT_EQ(plan_of({0, 16384}, 8, 1).execution, RecurrenceExecution::kFused);
  EXPECT_EQ(plan_of({0, 16384}, 8, 2).execution, RecurrenceExecution::kFused);
  // nothing to cut
  EXPECT_EQ(plan_of({0, 250, 500, 750, 1000}, 1, 64).execution, RecurrenceExecution::kFused);
  EXPECT_NE(plan_of({0, 16384}, 1, 16).execution, RecurrenceExecution::kFused);
  EXPECT_NE(plan_of({0, 16384}, 8, 64).execution, RecurrenceExecution::kFused);
}

// Slow products are kept; fast ones (AMX) are sooner made again than moved through memory, and a million
// tokens are never kept.
TEST(RecurrencePlan, KeepsProductsWhereMemoryIsFasterThanMakingThemAgain) {
  EXPECT_EQ(plan_of({0, 16384}, 1, 16, 1e10).execution, RecurrenceExecution::kTwoPass);
  EXPECT_EQ(plan_of({0, 16384}, 1, 16, 1e12).execution, RecurrenceExecution::kSegmented);
  EXPECT_EQ(plan_of({0, 4'000'000}, 4, 64, 1e10).execution, RecurrenceExecution::kSegmented);
}

TEST(RecurrencePlan, BlocksAreShortWhereStatesAreSmallAndProductsSlow) {
  const auto block_of = [](int64_t key, int64_t value, double flops_per_second) {
    const std::vector<int64_t> offsets{0, 1000};
    return plan_recurrence(offsets, 0, RecurrenceExecution::kAuto,
                           {.key = key, .value = value, .flops_per_second = flops_per_second})
        .block;
  };
  EXPECT_EQ(block_of(64, 64, 1e11), 32);
  EXPECT_EQ(block_of(64, 65, 1e11), 64);
  EXPECT_EQ(block_of(64, 64, 6e11), 64);
  EXPECT_EQ(plan_recurrence(std::vector<int64_t>{0, 9}, 128, RecurrenceExecution::kAuto, {}).block, 128);
}

// The segments, and so every rounding, are those of the shape.
TEST(RecurrencePlan, ThreadsDoNotMoveSegments) {
  const auto one = plan_of({0, 5000, 5001}, 4, 1), many = plan_of({0, 5000, 5001}, 4, 64);
  ASSERT_EQ(one.segments.size(), many.segments.size());
  for (size_t s = 0; s < one.segments.size(); ++s) EXPECT_EQ(one.segments[s].start, many.segments[s].start);
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_plan_test
