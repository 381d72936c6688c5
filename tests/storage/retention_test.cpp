#include "storage/retention.h"

#include <gmock/gmock.h>

#include <ctime>

#include "files_for_tests.h"
#include "storage/recording_file_system.h"

namespace longhaul::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kFolder = "/run/checkpoints";
constexpr double kDay = 86400;

std::vector<int64_t> steps_in(const FileSystem& files) {
  std::vector<int64_t> steps;
  for (const FolderEntry& entry : files.list(kFolder)) {
    const auto name = parse_checkpoint_name(entry.name);
    if (entry.is_folder && name && name->kind == CheckpointName::Kind::kCommitted) steps.push_back(name->step);
  }
  return steps;
}

class Retention : public ::testing::Test {
 protected:
  void save(int64_t step, int64_t generation = 1) { save_test_checkpoint(disk, kFolder, step, generation, static_cast<uint64_t>(step)); }
  RecordingFileSystem disk;
};

TEST_F(Retention, NewestEveryMthAndProtectedStay) {
  for (int64_t step = 10; step <= 100; step += 10) save(step);
  protect(disk, kFolder / step_name(20));
  prune(disk, kFolder, {.keep_last = 2, .keep_every = 40, .protected_steps = {70}}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(20, 40, 70, 80, 90, 100));
  unprotect(disk, kFolder / step_name(20));
  const PruneReport report = prune(disk, kFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(100));
  EXPECT_EQ(report.removed.size(), 5u);
}

TEST_F(Retention, OnlyReportingRemovesNothing) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  const size_t operations = disk.log().size();
  EXPECT_EQ(prune(disk, kFolder, {.keep_last = 3}, 1, 0, Prune::kOnlyReport).removed.size(), 2u);
  EXPECT_EQ(disk.log().size(), operations);
}

TEST_F(Retention, NothingGoesUnlessANewerOneVerifies) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  disk.flip_bit(kFolder / step_name(50) / "rank-00001.safetensors", disk.file_bytes(kFolder / step_name(50) / "rank-00001.safetensors") - 1,
                0);
  disk.flip_bit(kFolder / step_name(40) / kManifestName, 30, 1);
  prune(disk, kFolder, {.keep_last = 1}, 1, 0);
  // 50 is damaged and 40 unreadable: both stay to be looked into; 30 is the newest whole one.
  EXPECT_THAT(steps_in(disk), ElementsAre(30, 40, 50));
  const Search search = find_newest_valid(disk, kFolder);
  EXPECT_EQ(search.newest->manifest().step, 30);
  EXPECT_EQ(search.rejected.size(), 2u);
}

TEST_F(Retention, TargetOfLatestAndLeasedOnesStay) {
  for (int64_t step = 10; step <= 50; step += 10) save(step);
  replace_file(disk, kFolder / kLatestName, step_name(10) + "\n");
  disk.set_time_s(1000 * kDay);
  {
    const Lease lease(disk, kFolder / step_name(20), "node-3");
    prune(disk, kFolder, {.keep_last = 1}, 1, 1000.5 * kDay);
    EXPECT_THAT(steps_in(disk), ElementsAre(10, 20, 50));
    prune(disk, kFolder, {.keep_last = 1}, 1, 1001.5 * kDay);
    EXPECT_THAT(steps_in(disk), ElementsAre(10, 50)) << "a lease older than a day belongs to a dead job";
  }
  save(60);
  prune(disk, kFolder, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(steps_in(disk), ElementsAre(60));
}

TEST_F(Retention, OrphansGoAfterADayAndTheInFlightOneStays) {
  disk.set_time_s(100 * kDay);
  save(10, 1);
  disk.make_folders(kFolder / "step-000000020.tmp-1");
  disk.make_folders(kFolder / "step-000000020.tmp-2");
  disk.make_folders(kFolder / ".deleted-step-000000005");
  disk.make_folders(kFolder / "somebody-elses-folder");
  prune(disk, kFolder, {}, 2, 100.9 * kDay);
  EXPECT_TRUE(disk.exists(kFolder / "step-000000020.tmp-1"));
  EXPECT_FALSE(disk.exists(kFolder / ".deleted-step-000000005"));
  prune(disk, kFolder, {}, 2, 101.1 * kDay);
  EXPECT_FALSE(disk.exists(kFolder / "step-000000020.tmp-1"));
  EXPECT_TRUE(disk.exists(kFolder / "step-000000020.tmp-2"));
  EXPECT_TRUE(disk.exists(kFolder / "somebody-elses-folder"));
}

TEST_F(Retention, ALaterGenerationSupersedesAndFencesTheEarlier) {
  save(100, 1);
  save(60, 2);  // after a rollback
  EXPECT_EQ(find_newest_valid(disk, kFolder).newest->manifest().step, 60);
  const Error error = error_of([&] { save(110, 1); });
  EXPECT_EQ(error.code(), ExitCode::kFenced);
  EXPECT_THAT(steps_in(disk), ElementsAre(60, 100));
  EXPECT_FALSE(disk.exists(kFolder / "step-000000110.tmp-1")) << "an abandoned save cleans up";
}

TEST_F(Retention, LatestIsOnlyAHint) {
  save(10);
  save(20);
  for (const std::string text : {"", "step-000000099\n", "../../etc", "garbage\n\n", "step-000000010\n"}) {
    replace_file(disk, kFolder / kLatestName, text);
    EXPECT_EQ(find_newest_valid(disk, kFolder).newest->manifest().step, 20) << text;
  }
  disk.remove(kFolder / kLatestName);
  EXPECT_EQ(open_checkpoint(disk, kFolder).manifest().step, 20);
  EXPECT_EQ(open_checkpoint(disk, kFolder / step_name(10)).manifest().step, 10);
}

TEST_F(Retention, APathNamesAllCheckpointsOrOne) {
  save(10);
  save(20);
  const auto resolved = [&](const std::filesystem::path& path) {
    const NamedCheckpoints found = resolve(disk, path);
    return std::pair(found.folder.string(), found.is_one);
  };
  const std::string all = kFolder.string(), newest = (kFolder / step_name(20)).string();
  const std::filesystem::path run = kFolder.parent_path();
  for (const auto& path : {run, run / "", kFolder, kFolder / ""}) EXPECT_EQ(resolved(path), std::pair(all, false)) << path;
  for (const auto& path : {kFolder / kLatestName, std::filesystem::path(newest), std::filesystem::path(newest + "/"),
                           kFolder / step_name(20) / kManifestName}) {
    EXPECT_EQ(resolved(path), std::pair(newest, true)) << path;
    EXPECT_EQ(open_checkpoint(disk, path).manifest().step, 20);
  }
  replace_file(disk, kFolder / kLatestName, "step-000000010\n");
  EXPECT_EQ(open_checkpoint(disk, kFolder / kLatestName, Depth::kContents).manifest().step, 10) << "what it names, when it is named itself";

  replace_file(disk, kFolder / kLatestName, "garbage\n");
  disk.remove(kFolder / step_name(10) / kManifestName);
  for (const auto& path : {kFolder / kLatestName, kFolder / step_name(10), kFolder / step_name(20) / "rank-00000.safetensors"}) {
    const Error error = error_of([&] { resolve(disk, path); });
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << path;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string()), HasSubstr("found "))) << path;
  }
}

TEST_F(Retention, NoValidCheckpointSaysWhy) {
  save(10);
  disk.remove(kFolder / step_name(10) / "rank-00000.safetensors");
  const Error error = error_of([&] { open_checkpoint(disk, kFolder); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  EXPECT_THAT(error.what(), HasSubstr("rank-00000.safetensors"));
  EXPECT_EQ(error_of([&] { open_checkpoint(disk, "/nowhere"); }).code(), ExitCode::kCheckpoint);
}

TEST(CommitProtocol, WritersMustAgreeAndBeComplete) {
  RecordingFileSystem disk;
  {
    CheckpointWriter writer(disk, kFolder, 5, 1);
    const auto reports = write_test_files(disk, writer.folder(), 1);
    writer.add(reports[0]);
    const Error error = error_of([&] { writer.commit({}); });
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("layers.0.weight"));
  }
  {
    CheckpointWriter writer(disk, kFolder, 5, 1);
    auto reports = write_test_files(disk, writer.folder(), 1);
    reports[1].shards[0].dtype = DType::kF16;
    for (const auto& report : reports) writer.add(report);
    EXPECT_THAT(error_of([&] { writer.commit({}); }).what(), HasSubstr("disagree"));
  }
  EXPECT_TRUE(disk.list(kFolder).empty()) << "nothing exists, nothing is left";
}

TEST(CommitProtocol, NamesAreParsedStrictly) {
  EXPECT_EQ(step_name(12), "step-000000012");
  EXPECT_EQ(step_name(12'345'678'901), "step-12345678901");
  EXPECT_EQ(parse_checkpoint_name("step-000000012")->step, 12);
  EXPECT_EQ(parse_checkpoint_name("step-12345678901")->step, 12'345'678'901);
  EXPECT_EQ(parse_checkpoint_name("step-000000012.tmp-7")->generation, 7);
  EXPECT_EQ(parse_checkpoint_name("step-000000012.replaced-7")->kind, CheckpointName::Kind::kReplaced);
  for (const char* name :
       {"step-12", "step-", "step-00000001x", "step--00000012", "step-000000012.", "step-000000012.tmp-", "step-000000012.tmp-x",
        "step-000000012.old-1", "Step-000000012", ".deleted-step-000000012", "step-99999999999999999999"}) {
    EXPECT_FALSE(parse_checkpoint_name(name).has_value()) << name;
  }
}

TEST(CommitProtocol, OnTheRealDisk) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "longhaul-commit" / "checkpoints";
  std::filesystem::remove_all(folder.parent_path());
  FileSystem& files = local_file_system();
  for (int64_t step = 1; step <= 4; ++step) save_test_checkpoint(files, folder, step, 1, static_cast<uint64_t>(step));
  save_test_checkpoint(files, folder, 4, 2, 9);
  prune(files, folder, {.keep_last = 2}, 2, 1e12);
  std::vector<std::string> names;
  for (const FolderEntry& entry : files.list(folder)) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("latest", "step-000000003", "step-000000004"));
  EXPECT_EQ(read_small_file(files, folder / kLatestName, ExitCode::kCheckpoint, 100), "step-000000004\n");
  const Search search = find_newest_valid(files, folder);
  EXPECT_EQ(search.newest->manifest().generation, 2);
  EXPECT_EQ(search.newest->read_tensor("layers.0.weight"), random_bytes(96, 9));
  EXPECT_LT(std::abs(files.modified_s(folder / "latest") - static_cast<double>(::time(nullptr))), 100);
  std::filesystem::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace longhaul::storage
