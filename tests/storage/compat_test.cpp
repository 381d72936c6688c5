// Format version 1 stays readable: tests/compat/checkpoint-v1 was written once and is never written again.
// When the format changes, a folder for the new version is added beside it:
//   LONGHAUL_WRITE_COMPAT=folder storage_test --gtest_also_run_disabled_tests
//       --gtest_filter='*DISABLED_Write*'
#include <gmock/gmock.h>

#include <cstdlib>

#include "files_for_tests.h"
#include "support/places.h"

namespace longhaul::storage {
namespace {

TEST(CompatCheckpoint, VersionOneReads) {
  const auto folder = std::filesystem::path(source_folder()) / "tests" / "compat" / "checkpoint-v1";
  const Checkpoint checkpoint = open_checkpoint(local_file_system(), folder, Depth::kContents);
  const Manifest& manifest = checkpoint.manifest();
  EXPECT_EQ(manifest.run_id, "test");
  EXPECT_EQ(manifest.step, 12);
  EXPECT_EQ(manifest.generation, 3);
  EXPECT_EQ(manifest.world, 2);
  EXPECT_EQ(manifest.parent_step, -1);
  EXPECT_EQ(manifest.data_position.at("first_sample").get<int64_t>(), 96);
  EXPECT_EQ(manifest.tensors.size(), 3u);
  EXPECT_EQ(manifest.tensors.at("norm").role, "weight");
  EXPECT_EQ(checkpoint.read_tensor("layers.0.weight"), random_bytes(96, 7));
  EXPECT_EQ(checkpoint.read_tensor("norm"), random_bytes(8, 8));
  EXPECT_EQ(checkpoint.read_tensor("optimizer.count"), random_bytes(8, 9));
}

TEST(CompatCheckpoint, DISABLED_Write) {
  const char* folder = std::getenv("LONGHAUL_WRITE_COMPAT");
  ASSERT_NE(folder, nullptr);
  save_test_checkpoint(local_file_system(), folder, 12, 3, 7);
}

}  // namespace
}  // namespace longhaul::storage
