// What the host's memory has no room for goes to a file and comes back with the same bytes; a full disk and a
// broken one cost what they must; nothing is left of the file.
#include "kernels/saved/file_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/small_disk.h"
#include "base/files/temporary_folder.h"
#include "kernels/saved/host_offload.h"
#include "support/pretended_device.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::random_tensor;
using ::testing::HasSubstr;

constexpr int64_t kLayerBytes = 1 << 20;

Tensor numbers_of(int64_t layer) {
  return random_tensor({kLayerBytes / 4}, static_cast<uint64_t>(layer), at::kFloat);
}

// Forward passes of layers of kLayerBytes each, then their backward passes.
void step(HostOffload& offload, int64_t layers) {
  std::vector<SavedTensor> kept;
  for (int64_t layer = 0; layer < layers; ++layer) {
    offload.begin_layer(layer, false);
    kept.emplace_back(numbers_of(layer), &offload);
  }
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    EXPECT_TRUE(kept[static_cast<size_t>(layer)].get().equal(numbers_of(layer))) << layer;
    kept[static_cast<size_t>(layer)] = SavedTensor();
  }
}

// The files without a name that this process has open, below the folder.
std::vector<int> open_files_in(const std::filesystem::path& folder) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(entry.path(), gone).string();
    if (path.starts_with(folder.string() + "/")) found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

TEST(FileTier, TakesWhatTheHostHasNoRoomFor) {
  const TemporaryFolder folder;
  HostOffload offload({.room_bytes = 2 * kLayerBytes, .file_folder = folder.path()});
  for (int64_t pass = 1; pass <= 3; ++pass) {
    step(offload, 5);
    const HostOffload::Use use = offload.use();
    EXPECT_EQ(use.room_bytes, 2 * kLayerBytes);
    EXPECT_EQ(use.file_bytes, pass * 3 * kLayerBytes);
    EXPECT_EQ(use.moved_bytes, pass * 5 * kLayerBytes);
    EXPECT_EQ(use.fetched_bytes, use.moved_bytes);
    EXPECT_EQ(use.stayed_bytes, 0);
    EXPECT_EQ(use.file_length, 3 * kLayerBytes) << "places are used again";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the file has no name";
  EXPECT_EQ(open_files_in(folder.path()).size(), 1u);
  const HostOffload::Use last = offload.use_since_last();
  EXPECT_EQ(last.file_bytes, 9 * kLayerBytes);
  EXPECT_EQ(offload.use_since_last().file_bytes, 0);
}

TEST(FileTier, TakesRowsAlone) {
  const TemporaryFolder folder;
  HostOffload offload({.room_bytes = 0, .share = 0.5, .file_folder = folder.path()});
  offload.begin_layer(0, false);
  Tensor x = random_tensor({10, 4}, 1, at::kFloat);
  const Tensor expected = x.narrow(0, 0, 3).clone();
  const SavedTensor rows = SavedTensor::of_rows(x, 3, &offload);
  EXPECT_EQ(offload.use().file_bytes, 3 * 4 * 4);
  x = Tensor();
  EXPECT_TRUE(rows.get().equal(expected));
}

// On a slow disk: what is written stays until it is written, and a layer does not begin before the one two
// before it is gone.
TEST(FileTier, HoldsWhatIsWritten) {
  const TemporaryFolder folder;
  HostOffload offload(
      {.room_bytes = 0, .bytes_per_second = 20.0 * kLayerBytes, .file_folder = folder.path()});
  std::vector<SavedTensor> kept;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
  for (int64_t layer = 0; layer < 4; ++layer) {
    offload.begin_layer(layer, false);
    for (int64_t gone = 0; gone + 2 <= layer; ++gone)
      EXPECT_TRUE(memory[static_cast<size_t>(gone)].expired()) << gone << " at " << layer;
    const Tensor x = numbers_of(layer);
    memory.push_back(x.storage().getWeakStorageImpl());
    kept.emplace_back(x, &offload);
  }
  EXPECT_FALSE(memory.back().expired()) << "not written yet";
  EXPECT_GT(offload.use().waited_s, 0);
  for (int64_t layer = 3; layer >= 0; --layer)
    EXPECT_TRUE(kept[static_cast<size_t>(layer)].get().equal(numbers_of(layer)));
}

// Some layers are in the file when the disk is full; the others stay, and all come back.
TEST(FileTier, AFullDiskLeavesTheRestOnTheDevice) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder / "disk", 3 * kLayerBytes);
  if (!disk.usable()) GTEST_SKIP() << "this user may not mount";
  HostOffload offload({.room_bytes = 0, .share = 1, .file_folder = folder / "disk"});
  step(offload, 6);
  const HostOffload::Use first = offload.use();
  EXPECT_LT(first.file_bytes, 6 * kLayerBytes) << "nothing more is begun behind the failure";
  EXPECT_GE(first.file_bytes, 4 * kLayerBytes);
  EXPECT_EQ(first.file_bytes + first.stayed_bytes, 6 * kLayerBytes);
  step(offload, 6);
  EXPECT_EQ(offload.use().file_bytes, first.file_bytes) << "the file is given up";
  EXPECT_EQ(offload.use().stayed_bytes, first.stayed_bytes + 6 * kLayerBytes);
}

// Rows that are part of another tensor's memory, whose write fails.
TEST(FileTier, RowsThatCannotBeWrittenStay) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder / "disk", 64 << 10);
  if (!disk.usable()) GTEST_SKIP() << "this user may not mount";
  HostOffload offload({.room_bytes = 0, .share = 1, .file_folder = folder / "disk"});
  offload.begin_layer(0, false);
  Tensor x = random_tensor({2048, 64}, 1, at::kFloat);
  const Tensor expected = x.clone();
  const SavedTensor rows = SavedTensor::of_rows(x.narrow(0, 100, 1900), 1500, &offload);
  x = Tensor();
  EXPECT_TRUE(rows.get().equal(expected.narrow(0, 100, 1500)));
}

TEST(FileTier, AReadThatFailsIsAnError) {
  const TemporaryFolder folder;
  HostOffload offload({.room_bytes = 0, .file_folder = folder.path()});
  offload.begin_layer(0, false);
  SavedTensor kept(numbers_of(0), &offload);
  // Writes take turns, so what was written last tells that all are: a write after the cut would make the file
  // long again. Its layer does not follow the other, which would be read ahead of its time.
  offload.begin_layer(2, false);
  const SavedTensor last(numbers_of(2), &offload);
  EXPECT_TRUE(last.get().equal(numbers_of(2)));
  const std::vector<int> files = open_files_in(folder.path());
  ASSERT_EQ(files.size(), 1u);
  ASSERT_EQ(::ftruncate(files[0], 100), 0);
  try {
    kept.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("longhaul-unnamed"));
  }
}

TEST(FileTier, AFolderThatIsNotThereIsRefused) {
  EXPECT_THROW(HostOffload({.file_folder = "/nowhere/at/all"}), Error);
}

// Bytes that come from a device which queues its copies are written when they are there.
TEST(FileTier, WaitsForTheDevicesCopy) {
  if (libtorch_has_cuda()) GTEST_SKIP() << "LibTorch with CUDA takes no second accelerator";
  const at::Device device = pretended_device();
  const TemporaryFolder folder;
  FileTier tier(folder.path(), 0);
  CopyLane down("down", device);
  const Tensor host = empty_host_tensor({kLayerBytes / 4}, at::kFloat, device);
  const auto copy = down.start(host, to_device(numbers_of(7), device));
  const std::shared_ptr<InTier> lies = tier.write(host, copy);
  EXPECT_FALSE(lies->still_here().defined());
  const Tensor back = at::zeros({kLayerBytes / 4}, at::kFloat);
  tier.read(*lies, back)->finish();
  EXPECT_TRUE(back.equal(numbers_of(7)));
}

}  // namespace
}  // namespace longhaul::kernels
