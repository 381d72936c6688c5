#include "storage/retention.h"

#include <gmock/gmock.h>

#include <ctime>

#include "files_for_tests.h"
#include "support/counting_reads.h"
#include "support/storage/recording_file_system.h"

namespace longhaul::storage::retention_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kRetentionFolder = "/run/checkpoints";
constexpr double kDay = 86400;

std::vector<int64_t> steps_in(const FileSystem& files) {
  std::vector<int64_t> steps;
  for (const FolderEntry& entry : files.list(kRetentionFolder)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (entry.is_folder && name && name->kind == CheckpointName::Kind::kCommitted)
      steps.push_back(name->step);
  }
  return steps;
}

constexpr int64_t kBytesOfOne = 96 + 8 + 8;  // tensors of a test checkpoint

class Retention : public ::testing::Test {
 protected:
  void save(int64_t step, int64_t generation = 1) {
    save_test_checkpoint(disk, kRetentionFolder, step, generation, static_cast<uint64_t>(step));
  }
  RecordingFileSystem disk;
};

TEST_F(Retention, NewestEveryMthAndProtectedStay) {
  for (int64_t step = 10; step <= 100; step += 10) save(step);
  const std::filesystem::path keep = kRetentionFolder / (name_of_save(20, 1) + ".keep");
  write_synced(disk, keep, "");
  prune_unread(disk, kRetentionFolder, {.keep_last = 2, .keep_every = 40}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(20, 40, 80, 90, 100));
  disk.remove(keep);
  const PruneReport report = prune_unread(disk, kRetentionFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(100));
  EXPECT_EQ(report.removed.size(), 4u);
}

TEST_F(Retention, NamesOfOlderVersionsAreListedReadAndPruned) {
  save(10, 1);
  save(20, 1);
  save(20, 2);
  disk.rename(kRetentionFolder / name_of_save(20, 1), kRetentionFolder / "step-000000020.replaced-2");
  disk.rename(kRetentionFolder / name_of_save(20, 2), kRetentionFolder / "step-000000020");
  std::vector<std::string> names;
  for (const CheckpointSummary& summary : list_checkpoints(disk, kRetentionFolder))
    names.push_back(summary.path.filename());
  EXPECT_THAT(names, ElementsAre("step-000000020", "step-000000020.replaced-2", "step-000000010"));
  EXPECT_EQ(open_checkpoint(disk, kRetentionFolder / "step-000000020").manifest().generation, 2);
  EXPECT_EQ(error_of([&] { save(30, 1); }).code(), ExitCode::kFenced)
      << "the manifest says what the name does not";
  EXPECT_EQ(claim_generation(disk, kRetentionFolder, 0), 3);
  disk.remove(kRetentionFolder / kLatestName);
  EXPECT_EQ(prune_unread(disk, kRetentionFolder, {.keep_last = 2}, 2, 0).removed,
            std::vector<std::filesystem::path>{kRetentionFolder / "step-000000020.replaced-2"});
  EXPECT_THAT(steps_in(disk), ElementsAre(10, 20));
}

TEST_F(Retention, AFolderUnderAnothersNameIsNotTaken) {
  save(10, 1);
  save(20, 2);
  disk.rename(kRetentionFolder / name_of_save(10, 1), kRetentionFolder / name_of_save(10, 3));
  const Search search = find_newest_valid(disk, kRetentionFolder);
  EXPECT_EQ(search.newest->manifest().step, 20);
  ASSERT_EQ(search.rejected.size(), 1u);
  EXPECT_THAT(search.rejected[0].reason, HasSubstr("generation 1, not 3"));
}

// A checkpoint is read back once, and serves for what goes until it is due itself: of each save's bytes a
// third is read with three kept.
TEST_F(Retention, ACheckpointIsReadBackAtMostOnce) {
  CountingReads counting(disk);
  ReadBack known;
  std::vector<int64_t> read;
  for (int64_t step = 1; step <= 12; ++step) {
    save(step);
    counting.tensor_bytes_read = 0;
    prune(counting, kRetentionFolder, {.keep_last = 3}, 1, 0, known);
    read.push_back(counting.tensor_bytes_read);
  }
  EXPECT_THAT(read, ElementsAre(0, 0, 0, kBytesOfOne, 0, 0, kBytesOfOne, 0, 0, kBytesOfOne, 0, 0));
  EXPECT_THAT(steps_in(disk), ElementsAre(10, 11, 12));

  // What was read back when it was saved (self-test) is not read again.
  save(13);
  known.whole = {kRetentionFolder / name_of_save(13, 1)};
  counting.tensor_bytes_read = 0;
  EXPECT_EQ(prune(counting, kRetentionFolder, {.keep_last = 1}, 1, 0, known).removed.size(), 3u);
  EXPECT_EQ(counting.tensor_bytes_read, 0);
}

// That an older checkpoint was in order says nothing of what is removed on the strength of newer ones.
TEST_F(Retention, NothingGoesOnTheStrengthOfAnUnreadOne) {
  ReadBack known;
  for (int64_t step = 10; step <= 30; step += 10) save(step);
  const auto data = kRetentionFolder / name_of_save(30, 1) / "rank-00000.safetensors";
  disk.flip_bit(data, disk.file_bytes(data) - 1, 0);
  known.whole = {kRetentionFolder / name_of_save(20, 1)};
  prune(disk, kRetentionFolder, {.keep_last = 2}, 1, 0, known);
  EXPECT_THAT(steps_in(disk), ElementsAre(20, 30)) << "20 was read and is newer than 10";
  prune(disk, kRetentionFolder, {.keep_last = 1}, 1, 0, known);
  EXPECT_THAT(steps_in(disk), ElementsAre(20, 30)) << "30 is damaged";
  EXPECT_FALSE(known.whole.contains(kRetentionFolder / name_of_save(30, 1)));
}

TEST_F(Retention, AnEarlierStartRemovesNothingOfALaterOne) {
  save(10, 1);
  for (int64_t step = 20; step <= 50; step += 10) save(step, 2);
  const PruneReport report = prune_unread(disk, kRetentionFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(report.removed, ElementsAre(kRetentionFolder / name_of_save(10, 1)));
  EXPECT_THAT(steps_in(disk), ElementsAre(20, 30, 40, 50));
}

TEST_F(Retention, OnlyReportingRemovesNothing) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  const size_t operations = disk.log().size();
  EXPECT_EQ(prune_unread(disk, kRetentionFolder, {.keep_last = 3}, 1, 0, Prune::kOnlyReport).removed.size(),
            2u);
  EXPECT_EQ(disk.log().size(), operations);
}

TEST_F(Retention, NothingGoesUnlessANewerOneVerifies) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  disk.flip_bit(kRetentionFolder / name_of_save(50, 1) / "rank-00001.safetensors",
                disk.file_bytes(kRetentionFolder / name_of_save(50, 1) / "rank-00001.safetensors") - 1, 0);
  disk.flip_bit(kRetentionFolder / name_of_save(40, 1) / kManifestName, 30, 1);
  prune_unread(disk, kRetentionFolder, {.keep_last = 1}, 1, 0);
  // 50 is damaged and 40 unreadable: both stay to be looked into; 30 is the newest whole one.
  EXPECT_THAT(steps_in(disk), ElementsAre(30, 40, 50));
  const Search search = find_newest_valid(disk, kRetentionFolder);
  EXPECT_EQ(search.newest->manifest().step, 30);
  EXPECT_EQ(search.rejected.size(), 2u);
}

TEST_F(Retention, TheTargetOfLatestStays) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  write_synced(disk, kRetentionFolder / kLatestName, name_of_save(10, 1) + "\n");
  prune_unread(disk, kRetentionFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(10, 50));
  save(60);
  prune_unread(disk, kRetentionFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(60));
}

TEST_F(Retention, OrphansGoAfterADayAndTheInFlightOneStays) {
  disk.set_time_s(100 * kDay);
  save(10, 1);
  disk.make_folders(kRetentionFolder / "step-000000020.tmp-1");
  disk.make_folders(kRetentionFolder / "step-000000020.tmp-2");
  disk.make_folders(kRetentionFolder / ".deleted-step-000000005");
  disk.make_folders(kRetentionFolder / "somebody-elses-folder");
  prune_unread(disk, kRetentionFolder, {}, 2, 100.9 * kDay);
  EXPECT_TRUE(disk.exists(kRetentionFolder / "step-000000020.tmp-1"));
  EXPECT_FALSE(disk.exists(kRetentionFolder / ".deleted-step-000000005"));
  prune_unread(disk, kRetentionFolder, {}, 2, 101.1 * kDay);
  EXPECT_FALSE(disk.exists(kRetentionFolder / "step-000000020.tmp-1"));
  EXPECT_TRUE(disk.exists(kRetentionFolder / "step-000000020.tmp-2"));
  EXPECT_TRUE(disk.exists(kRetentionFolder / "somebody-elses-folder"));
}

TEST_F(Retention, ALaterGenerationSupersedesAndFencesTheEarlier) {
  save(100, 1);
  save(60, 2);  // after a rollback
  EXPECT_EQ(find_newest_valid(disk, kRetentionFolder).newest->manifest().step, 60);
  const Error error = error_of([&] { save(110, 1); });
  EXPECT_EQ(error.code(), ExitCode::kFenced);
  EXPECT_THAT(steps_in(disk), ElementsAre(60, 100));
  EXPECT_FALSE(disk.exists(kRetentionFolder / "step-000000110.tmp-1")) << "an abandoned save cleans up";
}

TEST_F(Retention, LatestIsOnlyAHint) {
  save(10);
  save(20);
  for (const std::string text : {"", "step-000000099\n", "../../etc", "garbage\n\n", "step-000000010\n"}) {
    write_synced(disk, kRetentionFolder / kLatestName, text);
    EXPECT_EQ(find_newest_valid(disk, kRetentionFolder).newest->manifest().step, 20) << text;
  }
  disk.remove(kRetentionFolder / kLatestName);
  EXPECT_EQ(open_checkpoint(disk, kRetentionFolder).manifest().step, 20);
  EXPECT_EQ(open_checkpoint(disk, kRetentionFolder / name_of_save(10, 1)).manifest().step, 10);
}

TEST_F(Retention, APathNamesAllCheckpointsOrOne) {
  save(10);
  save(20);
  const auto resolved = [&](const std::filesystem::path& path) {
    const NamedCheckpoints found = resolve(disk, path);
    return std::pair(found.folder.string(), found.is_one);
  };
  const std::string all = kRetentionFolder.string(),
                    newest = (kRetentionFolder / name_of_save(20, 1)).string();
  const std::filesystem::path run = kRetentionFolder.parent_path();
  for (const auto& path : {run, run / "", kRetentionFolder, kRetentionFolder / ""})
    EXPECT_EQ(resolved(path), std::pair(all, false)) << path;
  for (const auto& path :
       {kRetentionFolder / kLatestName, std::filesystem::path(newest), std::filesystem::path(newest + "/"),
        kRetentionFolder / name_of_save(20, 1) / kManifestName}) {
    EXPECT_EQ(resolved(path), std::pair(newest, true)) << path;
    EXPECT_EQ(open_checkpoint(disk, path).manifest().step, 20);
  }
  for (const std::string text : {"step-000000010\n", "garbage\n"}) {
    write_synced(disk, kRetentionFolder / kLatestName, text);
    EXPECT_EQ(resolved(kRetentionFolder / kLatestName), std::pair(newest, true))
        << "what lies there, not what the file says: " << text;
  }
  disk.remove(kRetentionFolder / kLatestName);
  EXPECT_EQ(resolved(kRetentionFolder / kLatestName), std::pair(newest, true));

  save(10, 4);
  save(15, 4);
  save(15, 5);
  EXPECT_EQ(resolved(kRetentionFolder / "step-000000015").first,
            (kRetentionFolder / name_of_save(15, 5)).string())
      << "of a step, the newest";
  EXPECT_EQ(resolved(kRetentionFolder / "step-000000010").first,
            (kRetentionFolder / "step-000000010").string())
      << "what lies there is what it says";
  EXPECT_EQ(resolved(kRetentionFolder / name_of_save(10, 1)).first,
            (kRetentionFolder / name_of_save(10, 1)).string());
  disk.remove(kRetentionFolder / name_of_save(10, 1) / kManifestName);
  for (const auto& path : {kRetentionFolder / name_of_save(10, 1),
                           kRetentionFolder / name_of_save(20, 1) / "rank-00000.safetensors",
                           kRetentionFolder / "step-000000011", run / kLatestName}) {
    const Error error = error_of([&] { resolve(disk, path); });
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << path;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string()), HasSubstr("found "))) << path;
  }
}

TEST_F(Retention, NoValidCheckpointSaysWhy) {
  save(10);
  disk.remove(kRetentionFolder / name_of_save(10, 1) / "rank-00000.safetensors");
  const Error error = error_of([&] { open_checkpoint(disk, kRetentionFolder); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  EXPECT_THAT(error.what(), HasSubstr("rank-00000.safetensors"));
  EXPECT_EQ(error_of([&] { open_checkpoint(disk, "/nowhere"); }).code(), ExitCode::kCheckpoint);
}

TEST(CommitProtocol, WritersMustAgreeAndBeComplete) {
  RecordingFileSystem disk;
  {
    CheckpointWriter writer(disk, kRetentionFolder, 5, 1);
    const auto reports = write_test_files(disk, writer.folder(), 1);
    writer.add(reports[0]);
    const Error error = error_of([&] { writer.commit({}); });
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("layers.0.weight"));
  }
  {
    CheckpointWriter writer(disk, kRetentionFolder, 5, 1);
    auto reports = write_test_files(disk, writer.folder(), 1);
    reports[1].shards[0].dtype = DType::kF16;
    for (const auto& report : reports) writer.add(report);
    EXPECT_THAT(error_of([&] { writer.commit({}); }).what(), HasSubstr("disagree"));
  }
  EXPECT_TRUE(disk.list(kRetentionFolder).empty()) << "nothing exists, nothing is left";
}

TEST(CommitProtocol, NamesAreParsedStrictly) {
  using Kind = CheckpointName::Kind;
  const std::vector<std::pair<std::string, CheckpointName>> names = {
      {"step-000000012.g3", {Kind::kCommitted, 12, 3}},
      {"step-000000012.g3-2", {Kind::kCommitted, 12, 3, 2}},
      {"step-000000012.g1-2", {Kind::kCommitted, 12, 1, 2}},
      {"step-12345678901.g0", {Kind::kCommitted, 12'345'678'901, 0}},
      {"step-000000012.tmp-7", {Kind::kTemporary, 12, 7}},
      {"step-000000012", {Kind::kCommitted, 12, std::nullopt}}};
  for (const auto& [text, name] : names) {
    EXPECT_EQ(name.text(), text);
    EXPECT_EQ(parse_checkpoint_name(text), name) << text;
  }
  EXPECT_EQ((CheckpointName{Kind::kCommitted, 12, 1}).text(), "step-000000012");
  EXPECT_EQ(parse_checkpoint_name("step-000000012.replaced-7"),
            (CheckpointName{Kind::kReplaced, 12, std::nullopt}));
  for (const char* name : {"step-12",
                           "step-",
                           "step-00000001x",
                           "step--00000012",
                           "step-000000012.",
                           "step-000000012.tmp-",
                           "step-000000012.tmp-x",
                           "step-000000012.old-1",
                           "Step-000000012",
                           ".deleted-step-000000012",
                           "step-99999999999999999999",
                           "step-000000012.g",
                           "step-000000012.g03",
                           "step-000000012.g1",
                           "step-000000012.g-3",
                           "step-000000012.g3-",
                           "step-000000012.g3-0",
                           "step-000000012.g3-1",
                           "step-000000012.g3-02",
                           "step-0000000012",
                           "step-000000012.g3.keep"}) {
    EXPECT_FALSE(parse_checkpoint_name(name).has_value()) << name;
  }
}

TEST(CommitProtocol, OnTheRealDisk) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "longhaul-commit" / "checkpoints";
  std::filesystem::remove_all(folder.parent_path());
  FileSystem& files = local_file_system();
  for (int64_t step = 1; step <= 4; ++step)
    save_test_checkpoint(files, folder, step, 1, static_cast<uint64_t>(step));
  save_test_checkpoint(files, folder, 4, 2, 9);
  prune_unread(files, folder, {.keep_last = 2}, 2, 1e12);
  std::vector<std::string> names;
  for (const FolderEntry& entry : files.list(folder)) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("latest", "step-000000003", "step-000000004.g2"));
  EXPECT_EQ(read_small_file(files, folder / kLatestName, ExitCode::kCheckpoint, 100), "step-000000004.g2\n");
  const Search search = find_newest_valid(files, folder);
  EXPECT_EQ(search.newest->manifest().generation, 2);
  EXPECT_EQ(search.newest->read_tensor("layers.0.weight"), random_bytes(96, 9));
  EXPECT_LT(std::abs(files.modified_s(folder / "latest") - static_cast<double>(::time(nullptr))), 100);
  std::filesystem::remove_all(folder.parent_path());
}

// The ranks of a run read together what prune() would read alone.
TEST_F(Retention, WhatMustBeReadBackIsSaidBeforehand) {
  for (int64_t step = 10; step <= 30; step += 10) save(step);
  const RetentionPolicy policy{.keep_last = 2};
  ReadBack known;
  EXPECT_EQ(unread_before_pruning(disk, kRetentionFolder, {.keep_last = 3}, 1, known), std::nullopt)
      << "nothing goes";
  EXPECT_EQ(unread_before_pruning(disk, kRetentionFolder, policy, 1, known),
            kRetentionFolder / name_of_save(30, 1));
  known.damaged.emplace(kRetentionFolder / name_of_save(30, 1), "as somebody found");
  EXPECT_EQ(unread_before_pruning(disk, kRetentionFolder, policy, 1, known), std::nullopt)
      << "10 is among the newest two that are left";
  save(40);
  EXPECT_EQ(unread_before_pruning(disk, kRetentionFolder, policy, 1, known),
            kRetentionFolder / name_of_save(40, 1));
  known.whole.insert(kRetentionFolder / name_of_save(40, 1));
  EXPECT_EQ(unread_before_pruning(disk, kRetentionFolder, policy, 1, known), std::nullopt);
  CountingReads counting(disk);
  EXPECT_THAT(prune(counting, kRetentionFolder, policy, 1, 0, known).removed,
              ElementsAre(kRetentionFolder / name_of_save(10, 1)));
  EXPECT_EQ(counting.tensor_bytes_read, 0);
}

TEST_F(Retention, AFolderOfAnotherStepIsNotTaken) {
  save(10, 1);
  save(20, 1);
  disk.rename(kRetentionFolder / name_of_save(10, 1), kRetentionFolder / name_of_save(30, 1));
  const Search search = find_newest_valid(disk, kRetentionFolder);
  EXPECT_EQ(search.newest->manifest().step, 20);
  ASSERT_EQ(search.rejected.size(), 1u);
  EXPECT_THAT(search.rejected[0].reason, HasSubstr("of step 10, not 30"));
}

}  // namespace
}  // namespace longhaul::storage::retention_test
