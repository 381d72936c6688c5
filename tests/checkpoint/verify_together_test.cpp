// A checkpoint that all ranks read together, each its share: every byte once, and one verdict on all.
#include "checkpoint/disk/verify_together.h"

#include <gmock/gmock.h>

#include <fstream>
#include <mutex>
#include <set>

#include "base/files/temporary_folder.h"
#include "comm/threads/run_ranks.h"
#include "ranks_for_tests.h"
#include "storage/commit.h"
#include "support/counting_reads.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFiles = 5;

// File i holds (i + 1) · 100 numbers.
std::string save(storage::FileSystem& files, const std::filesystem::path& folder) {
  storage::CheckpointWriter writer(files, folder, 3, 1);
  for (int64_t i = 0; i < kFiles; ++i) {
    const std::vector<std::byte> data(static_cast<size_t>(400 * (i + 1)), std::byte{7});
    const std::vector<storage::ShardSource> shards = {{.tensor = fmt::format("{}", i),
                                                       .shape = {100 * (i + 1)},
                                                       .dtype = storage::DType::kF32,
                                                       .role = i < 2 ? "weight" : "optimizer.m",
                                                       .offset = {0},
                                                       .length = {100 * (i + 1)},
                                                       .data = data}};
    writer.add(
        storage::write_checkpoint_file(files, writer.folder(), fmt::format("{}.safetensors", i), shards));
  }
  return writer.commit({.run_id = "shares", .world = kFiles}).filename().string();
}

// Its last byte becomes another one; a second time, what it was.
void flip_last_byte(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-1, std::ios::end);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-1, std::ios::end);
  stream.put(byte);
}

TEST(VerifyTogether, SharesAreOfAboutAsManyBytes) {
  const TemporaryFolder folder;
  storage::LocalFileSystem disk;
  const std::string name = save(disk, folder.path());
  const auto manifest = storage::read_manifest(disk, folder.path() / name);
  const auto two = shares_of_files(manifest, storage::kAllRoles, 2);
  // The largest first, each to who has least: 500 | 400, then 300 to the second, 200 to the first, 100 to
  // either.
  EXPECT_EQ(two, (std::vector<std::vector<std::string>>{{"4.safetensors", "1.safetensors", "0.safetensors"},
                                                        {"3.safetensors", "2.safetensors"}}));
  EXPECT_EQ(shares_of_files(manifest, "weight", 3),
            (std::vector<std::vector<std::string>>{{"1.safetensors"}, {"0.safetensors"}, {}}));
}

TEST(VerifyTogether, EachByteIsReadOnceAndAllHearOfDamage) {
  const TemporaryFolder folder;
  storage::LocalFileSystem disk;
  const std::string name = save(disk, folder.path());
  std::mutex mutex;
  const auto judge = [&](int64_t ranks) {
    std::set<std::string> verdicts;
    int64_t bytes = 0;
    comm::run_ranks(ranks, [&](comm::Communicator& world) {
      storage::CountingReads counting(disk);
      const Writers together(group_of_writers(world));
      const std::string verdict = damage_of(counting, folder.path(), name, together);
      const std::lock_guard hold(mutex);
      verdicts.insert(verdict);
      bytes += counting.tensor_bytes_read;
    });
    EXPECT_EQ(verdicts.size(), 1u);
    return std::pair(*verdicts.begin(), bytes);
  };
  for (const int64_t ranks : {2, 3, 7})
    EXPECT_EQ(judge(ranks), std::pair(std::string(), int64_t{400 * 15})) << ranks;
  for (int64_t i = 0; i < kFiles; ++i) {
    const auto file = folder.path() / name / fmt::format("{}.safetensors", i);
    flip_last_byte(file);
    EXPECT_THAT(judge(3).first, HasSubstr(file.filename().string()));
    const Writers alone;
    EXPECT_THAT(damage_of(disk, folder.path(), name, alone), HasSubstr(file.filename().string()));
    EXPECT_EQ(damage_of(disk, folder.path(), name, alone, "weight").empty(), i >= 2) << i;
    flip_last_byte(file);
  }
  disk.remove(folder.path() / name / storage::kManifestName);
  EXPECT_THAT(judge(2).first, HasSubstr(storage::kManifestName));
}

}  // namespace
}  // namespace longhaul::checkpoint
