// What the host's memory takes of the layers, when it comes back, what stays where there is no room, and what
// is measured. That gradients have the same bits is tests/model/recompute_test.cpp's.
#include "kernels/saved/host_offload.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::random_tensor;

constexpr int64_t kMiB = 1 << 20;

Tensor floats(int64_t count, uint64_t seed) { return random_tensor({count}, seed, at::kFloat); }
c10::weak_intrusive_ptr<c10::StorageImpl> memory_of(const Tensor& x) {
  return x.storage().getWeakStorageImpl();
}

TEST(HostOffload, BytesComeBack) {
  HostOffload offload({.least_bytes = 64});
  offload.begin_layer(0, false);
  Tensor x = random_tensor({6, 8}, 1, at::kFloat), part = x.narrow(1, 2, 3);
  const Tensor expected = x.clone();
  const SavedTensor whole(x, &offload), strided(part, &offload), small(floats(4, 2), &offload);
  EXPECT_TRUE(whole.taken());
  EXPECT_TRUE(strided.taken());
  EXPECT_FALSE(small.taken());
  EXPECT_EQ(offload.use().moved_bytes, 6 * 8 * 4) << "two tensors of one storage are one copy";
  x = Tensor(), part = Tensor();
  EXPECT_TRUE(whole.get().equal(expected));
  EXPECT_TRUE(strided.get().equal(expected.narrow(1, 2, 3)));
  EXPECT_EQ(offload.use().fetched_bytes, 6 * 8 * 4);
}

TEST(HostOffload, OfSomeRowsTheOthersAreFree) {
  HostOffload offload({.share = 0.5});
  offload.begin_layer(0, false);
  EXPECT_EQ(offload.row_share(), 0.5);
  Tensor x = random_tensor({10, 4}, 1, at::kFloat);
  const Tensor expected = x.narrow(0, 0, 3).clone();
  const SavedTensor rows = SavedTensor::of_rows(x, 3, &offload);
  EXPECT_EQ(offload.use().moved_bytes, 3 * 4 * 4);
  x = Tensor();
  EXPECT_TRUE(rows.get().equal(expected));
  // where nothing is moved, they are a copy of their own
  offload.begin_layer(1, true);
  Tensor y = random_tensor({10, 4}, 2, at::kFloat);
  const auto memory = memory_of(y);
  const SavedTensor here = SavedTensor::of_rows(y, 3, &offload), all = SavedTensor::of_rows(y, 10, &offload);
  EXPECT_FALSE(here.taken());
  EXPECT_TRUE(here.get().equal(y.narrow(0, 0, 3)));
  EXPECT_TRUE(all.get().is_alias_of(y));
  EXPECT_FALSE(here.get().is_alias_of(y));
  offload.set_shares({{1, 0.25}});
  EXPECT_EQ(offload.row_share(), 0.25);
  offload.begin_layer(2, false);
  EXPECT_EQ(offload.row_share(), 0.5);
}

// Weights and what is of the last layers stay.
TEST(HostOffload, NotAllIsMoved) {
  const Tensor weight = floats(100, 1), x = floats(100, 2);
  HostOffload offload({.stays = {weight}});
  offload.begin_layer(0, false);
  EXPECT_FALSE(SavedTensor(weight, &offload).taken());
  EXPECT_TRUE(SavedTensor(x, &offload).taken());
  const int64_t moved = offload.use().moved_bytes;
  offload.begin_layer(1, true);
  const SavedTensor last(x, &offload);
  EXPECT_EQ(offload.use().moved_bytes, moved);
  EXPECT_TRUE(last.get().is_alias_of(x));
}

// With a link that takes 16 ms a layer: when layer l begins, that of l − 2 is gone, whatever compute does.
TEST(HostOffload, AtMostTwoLayersAreOnTheirWay) {
  HostOffload offload({.bytes_per_second = 64 * kMiB});
  std::vector<SavedTensor> kept;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
  for (int64_t layer = 0; layer < 5; ++layer) {
    offload.begin_layer(layer, false);
    for (int64_t gone = 0; gone + 2 <= layer; ++gone)
      EXPECT_TRUE(memory[static_cast<size_t>(gone)].expired()) << gone << " at " << layer;
    const Tensor x = floats(kMiB / 4, static_cast<uint64_t>(layer));
    kept.emplace_back(x, &offload);
    memory.push_back(memory_of(x));
  }
  EXPECT_GT(offload.use().waited_s, 0);
  for (int64_t layer = 4; layer >= 0; --layer)
    EXPECT_TRUE(kept[static_cast<size_t>(layer)].get().equal(floats(kMiB / 4, static_cast<uint64_t>(layer))));
}

// A layer's backward pass fetches the layer before it too, and no other; also that of a layer that stays.
TEST(HostOffload, ComesBackOneLayerEarly) {
  HostOffload offload({});
  std::vector<SavedTensor> kept;
  for (int64_t layer = 0; layer < 5; ++layer) {
    offload.begin_layer(layer, layer == 4);
    kept.emplace_back(floats(kMiB / 4, static_cast<uint64_t>(layer)), &offload);
    kept.emplace_back(floats(kMiB / 4, 10 + static_cast<uint64_t>(layer)), &offload);
  }
  EXPECT_EQ(offload.use().fetched_bytes, 0);
  const std::vector<int64_t> fetched = {8, 8, 6, 4, 2};  // behind the backward pass of each layer
  for (int64_t layer = 4; layer >= 0; --layer) {
    for (const int64_t i : {1, 0}) {
      const auto at = static_cast<size_t>(2 * layer + i);
      EXPECT_TRUE(kept[at].get().equal(floats(kMiB / 4, static_cast<uint64_t>(layer + 10 * i))));
      kept[at] = SavedTensor();
    }
    EXPECT_EQ(offload.use().fetched_bytes, fetched[static_cast<size_t>(layer)] * kMiB) << layer;
  }
}

TEST(HostOffload, StepsUseTheSameRoom) {
  HostOffload offload({});
  const auto step = [&](int64_t more) {
    std::vector<SavedTensor> kept;
    for (int64_t layer = 0; layer < 3; ++layer) {
      offload.begin_layer(layer, false);
      kept.emplace_back(floats(kMiB / 4 + more, 1), &offload);
    }
    for (int64_t layer = 2; layer >= 0; --layer) {
      EXPECT_TRUE(kept[static_cast<size_t>(layer)].get().equal(floats(kMiB / 4 + more, 1)));
      kept[static_cast<size_t>(layer)] = SavedTensor();
    }
  };
  step(0);
  const int64_t room = offload.use().room_bytes;
  EXPECT_EQ(room, 3 * kMiB);
  for (int64_t i = 0; i < 3; ++i) step(0), step(-100);  // other documents, smaller tensors
  EXPECT_EQ(offload.use().room_bytes, room);
  EXPECT_EQ(offload.use().stayed_bytes, 0);
}

// A host with room for two tensors of four: the others stay, with the same bytes; and when it is free again
// it is used again.
TEST(HostOffload, WhatHasNoRoomStays) {
  HostOffload offload({.room_bytes = 2 * kMiB + 100});
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<SavedTensor> kept;
    for (int64_t layer = 0; layer < 4; ++layer) {
      offload.begin_layer(layer, false);
      kept.emplace_back(floats(kMiB / 4, static_cast<uint64_t>(layer)), &offload);
      EXPECT_EQ(kept.back().taken(), layer < 2);
    }
    for (int64_t layer = 3; layer >= 0; --layer)
      EXPECT_TRUE(
          kept[static_cast<size_t>(layer)].get().equal(floats(kMiB / 4, static_cast<uint64_t>(layer))));
    EXPECT_EQ(offload.use().stayed_bytes, 2 * (pass + 1) * kMiB);
  }
  EXPECT_EQ(offload.use().room_bytes, 2 * kMiB);
  // Larger ones take the place of rooms that nobody uses.
  offload.begin_layer(0, false);
  EXPECT_TRUE(SavedTensor(floats(2 * kMiB / 4 + 10, 9), &offload).taken());
  EXPECT_EQ(offload.use().room_bytes, 2 * kMiB + 40);
}

TEST(HostOffload, TellsWhatItMeasured) {
  HostOffload offload({.share = 1, .bytes_per_second = 256 * kMiB});
  std::vector<LayerUse> told;
  double rate = 0;
  offload.when_measured([&](const std::vector<LayerUse>& uses, double bytes_per_second) {
    told = uses, rate = bytes_per_second;
  });
  std::vector<SavedTensor> kept;
  const auto pass = [&] {
    for (int64_t layer = 0; layer < 3; ++layer) {
      offload.begin_layer(layer, layer == 2);
      kept.emplace_back(floats(kMiB / 4, 1), &offload);
      Event begun(at::kCPU), ended(at::kCPU);
      begun.record(Stream::current(at::kCPU));
      const Tensor rows = random_tensor({kMiB / 8, 2}, 2, at::kFloat);
      ended.record(Stream::current(at::kCPU));
      offload.rows_made(static_cast<int64_t>(rows.nbytes()), std::move(begun), std::move(ended));
      kept.push_back(SavedTensor::of_rows(rows, kMiB / 16, &offload));
    }
  };
  pass();
  EXPECT_TRUE(told.empty());
  kept.clear();
  pass();  // begins: the first one is over
  ASSERT_EQ(told.size(), 3U);
  for (size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(told[l].layer, static_cast<int64_t>(l));
    EXPECT_EQ(told[l].stays, l == 2);
    EXPECT_EQ(told[l].whole_bytes, l == 2 ? 0 : kMiB);
    EXPECT_EQ(told[l].row_bytes, kMiB) << "all rows, not the share";
    EXPECT_GT(told[l].seconds, told[l].row_seconds);
    EXPECT_GT(told[l].row_seconds, 0);
  }
  EXPECT_LE(rate, 256 * kMiB);
  EXPECT_GT(rate, 10 * kMiB);
}

}  // namespace
}  // namespace longhaul::kernels
