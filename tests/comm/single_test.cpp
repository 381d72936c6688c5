// A group of one: everything is a copy, or nothing.
#include "comm/single.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

TEST(Single, CallsAreCopiesOrNothing) {
  Single alone;
  const Tensor x = values_of(0, {3, 2}, at::kBFloat16), y = at::zeros({3, 2}, at::kBFloat16);
  const Tensor before = x.clone();
  Work work = alone.all_reduce(x, Reduction::kSum, {"x"});
  EXPECT_TRUE(work.done());
  work.wait();
  alone.broadcast(x, 0, {"x"}).wait();
  alone.barrier({"x"}).wait();
  EXPECT_TRUE(x.equal(before));
  alone.all_gather(x, y, {"x"}).wait();
  EXPECT_TRUE(y.equal(before));
  y.zero_();
  alone.reduce_scatter(x, y, Reduction::kMax, {"x"}, {3}).wait();
  EXPECT_TRUE(y.equal(before));
  y.zero_();
  alone.all_to_all(x, y, {3}, {3}, {"x"}).wait();
  EXPECT_TRUE(y.equal(before));
  y.zero_();
  alone.exchange({send_to(0, x), receive_from(0, y)}, {"x"}).wait();
  EXPECT_TRUE(y.equal(before));
  alone.all_gather(y, y, {"in place"}).wait();
  EXPECT_TRUE(y.equal(before));
}

TEST(Single, RefusesWhatEveryCommunicatorRefuses) {
  Single alone("me");
  EXPECT_THROW((void)alone.all_reduce(at::ones({2, 3}).t(), Reduction::kSum, {"x"}), Error);
  EXPECT_THROW((void)alone.exchange({send_to(0, at::ones({2}))}, {"x"}), Error);
  EXPECT_THROW((void)alone.exchange({send_to(0, at::ones({2})), receive_from(0, at::ones({3}))}, {"x"}),
               Error);
  EXPECT_THROW((void)alone.broadcast(at::ones({2}), 1, {"x"}), Error);
  alone.barrier({"x"}).wait();
}

// Shapes alone: no memory is touched.
TEST(Single, TakesMetaTensors) {
  Single alone;
  const auto meta = at::TensorOptions().device(at::kMeta);
  alone.all_reduce(at::ones({2}, meta), Reduction::kSum, {"x"}).wait();
  alone.all_gather(at::ones({2}, meta), at::ones({2}, meta), {"x"}).wait();
}

TEST(Single, SplitsIntoItselfAndAbortsWithItsGroups) {
  Single alone;
  const auto groups = alone.split(layout::Mesh().group_kinds());
  ASSERT_EQ(groups.size(), layout::Mesh().group_kinds().size());
  EXPECT_EQ(groups[0]->name(), "dp-cp 0");
  EXPECT_EQ(groups[0]->size(), 1);
  groups[0]->abort("enough");
  try {
    alone.barrier({"later"}).wait();
    FAIL();
  } catch (const Aborted& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("enough"));
  }
}

}  // namespace
}  // namespace longhaul::comm
