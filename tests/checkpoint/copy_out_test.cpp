// The copy of the state: the numbers of the moment it was taken, whatever order and strides they lie in, and
// whatever training does once it has settled.
#include "checkpoint/disk/copy_out.h"

#include <gmock/gmock.h>

#include <limits>

#include "checkpoint/published/naming.h"
#include "support/models.h"

namespace longhaul::checkpoint {
namespace {

StateEntry entry_of(const std::string& name, const Tensor& view, const char* file = kModelFiles) {
  return {.name = name,
          .file = file,
          .role = kWeightRole,
          .shape = view.sizes().vec(),
          .held = layout::Rectangle::whole(view.sizes().vec()),
          .view = view};
}

// Beside LibTorch's copy: whole, narrow, transposed, of one element, of none, of every size of element.
TEST(CopyOut, DenseBytesOfAnyStrides) {
  const Tensor base = longhaul::testing::random_tensor({6, 5, 4}, 7);
  const std::vector<Tensor> views = {base,
                                     base.narrow(0, 1, 3),
                                     base.narrow(1, 2, 2),
                                     base.narrow(2, 1, 2),
                                     base.transpose(0, 2),
                                     base.permute({1, 2, 0}).narrow(1, 1, 2),
                                     base.narrow(0, 5, 1),
                                     base.select(1, 3),
                                     base.select(2, 0).select(0, 2),
                                     base.narrow(1, 0, 0),
                                     base.slice(0, 0, 6, 2)};
  for (const Tensor& view : views) {
    for (const ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      // Types are changed under the same strides.
      const Tensor typed = type == view.scalar_type()
                               ? view
                               : at::empty_strided(view.sizes(), view.strides(), type).copy_(view);
      const Tensor copied = at::full(typed.sizes(), std::numeric_limits<double>::quiet_NaN(), type);
      copy_dense(typed, copied);
      EXPECT_TRUE(at::equal(copied, typed))
          << layout::shape_text(typed.sizes().vec()) << " " << name_of(type);
    }
  }
}

TEST(CopyOut, TwoSetsOfBuffersTakeTurnsAndAreAllocatedOnce) {
  CopyOut copies;
  const Tensor weight = at::arange(12, at::kFloat).view({3, 4});
  const auto take = [&] { return copies.take({entry_of("w", weight)}, Changes::kInUpdates); };
  auto first = take();
  copies.settle();
  weight.add_(1);        // the update
  auto second = take();  // while the first is still being written somewhere
  copies.settle();
  weight.add_(1);
  first->wait(), second->wait();
  EXPECT_EQ(first->entries()[0].view[2][3].item<float>(), 11);
  EXPECT_EQ(second->entries()[0].view[2][3].item<float>(), 12);
  EXPECT_EQ(first->bytes(), 48);
  const void* const memory = first->entries()[0].view.const_data_ptr();
  first.reset();
  const auto third = take();
  third->wait();
  EXPECT_EQ(third->entries()[0].view.const_data_ptr(), memory);
  EXPECT_EQ(third->entries()[0].view[2][3].item<float>(), 13);
  EXPECT_GE(third->pause_milliseconds(), 0);
}

// What a task keeps may change in the next forward pass already.
TEST(CopyOut, WhatATaskKeepsIsCopiedAtOnce) {
  CopyOut copies;
  const Tensor task = at::ones({1 << 12}), weight = at::ones({1 << 20});
  const auto snapshot =
      copies.take({entry_of("w", weight), entry_of("task.t", task, kTaskFiles)}, Changes::kInUpdates);
  task.zero_();
  copies.settle();
  weight.zero_();
  snapshot->wait();
  for (const StateEntry& entry : snapshot->entries())
    EXPECT_TRUE(entry.view.eq(1).all().item<bool>()) << entry.name;
}

TEST(CopyOut, WhatAnotherRankWritesIsLeftOut) {
  CopyOut copies;
  StateEntry others = entry_of("others", at::ones({4}));
  others.written_here = false;
  const auto snapshot = copies.take({others, entry_of("own", at::ones({2}))});
  ASSERT_EQ(snapshot->entries().size(), 1u);
  EXPECT_EQ(snapshot->entries()[0].name, "own");
}

}  // namespace
}  // namespace longhaul::checkpoint
