// ctest: label=fault timeout=600
// Two starts of one run write into one folder from machines between which no lock holds. In every order of
// their operations, and wherever either stops: what carries the later generation stays as it is, and readers
// find it, whole.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "files_for_tests.h"
#include "interleavings.h"

namespace longhaul::storage::interleaving_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

const std::filesystem::path kInterleavingFolder = "/run/checkpoints";

// One tensor of four bytes: few operations, so that all their orders can be run.
void write_small_file(FileSystem& files, CheckpointWriter& writer, uint64_t seed) {
  const auto data = random_bytes(4, seed);
  const ShardSource shard{
      .tensor = "w", .shape = {1}, .dtype = DType::kF32, .offset = {0}, .length = {1}, .data = data};
  writer.add(write_checkpoint_file(files, writer.folder(), "a.safetensors", {&shard, 1}, 8));
}

void save_small(FileSystem& files, int64_t step, int64_t generation) {
  CheckpointWriter writer(files, kInterleavingFolder, step, generation);
  write_small_file(files, writer, static_cast<uint64_t>(100 * generation + step));
  writer.commit({.run_id = "test", .wall_time = "2026-01-01T00:00:00Z"});
  writer.point_latest_here();
}

std::string saved_and_pruned(FileSystem& files, int64_t step, int64_t generation, double now_s = 0) {
  save_small(files, step, generation);
  prune_unread(files, kInterleavingFolder, {.keep_last = 1}, generation, now_s);
  return "saved";
}

struct Found {
  int64_t generation;
  std::string contents;
};

// What counts as a checkpoint, by name.
std::map<std::string, Found> inventory(const FileSystem& disk) {
  std::map<std::string, Found> found;
  for (const CheckpointSummary& summary : list_checkpoints(disk, kInterleavingFolder)) {
    Found& one = found[summary.path.filename().string()];
    one.generation = summary.generation;
    one.contents = read_small_file(disk, summary.path / kManifestName, ExitCode::kDisk, 1 << 20) +
                   read_small_file(disk, summary.path / "a.safetensors", ExitCode::kDisk, 1 << 20);
  }
  return found;
}

int64_t newest_generation(const std::map<std::string, Found>& inventory) {
  int64_t newest = 0;
  for (const auto& [name, found] : inventory) newest = std::max(newest, found.generation);
  return newest;
}

std::string nothing_later_is_touched(const RecordingFileSystem& before, const RecordingFileSystem& after,
                                     const SteppedProcess& who) {
  const auto was = inventory(before), is = inventory(after);
  for (const auto& [name, found] : was) {
    const auto now = is.find(name);
    if (found.generation <= who.generation || (now != is.end() && now->second.contents == found.contents))
      continue;
    return fmt::format("generation {} took {} from generation {}", who.generation, name, found.generation);
  }
  const Search search = find_newest_valid(after, kInterleavingFolder);
  if (!search.newest) return "nothing loads";
  if (!search.rejected.empty()) return "half a checkpoint counts: " + search.rejected.front().reason;
  const int64_t newest = std::max(newest_generation(was), newest_generation(is)),
                found = search.newest->manifest().generation;
  return found == newest ? "" : fmt::format("readers find generation {}, where {} has saved", found, newest);
}

TEST(EveryOrder, OfTwoStartsThatSaveTheSameStepAndPrune) {
  RecordingFileSystem disk;
  save_small(disk, 10, 1);
  const Orders orders = every_order(disk,
                                    {{[](FileSystem& files) { return saved_and_pruned(files, 20, 1); }, 1},
                                     {[](FileSystem& files) { return saved_and_pruned(files, 20, 2); }, 2}},
                                    nothing_later_is_touched);
  EXPECT_EQ(orders.violation, "");
  EXPECT_GT(orders.states, 1000u);
  EXPECT_THAT(orders.results, Contains(ElementsAre("saved", "saved")));
  EXPECT_THAT(orders.results, Contains(ElementsAre("error 76", "saved")))
      << "the earlier one saw the later one's checkpoint";
  fmt::print("{} states, {} outcomes\n", orders.states, orders.results.size());
}

TEST(EveryOrder, OfAnEarlierStartThatIsAhead) {
  RecordingFileSystem disk;
  save_small(disk, 10, 1);
  const Orders orders = every_order(disk,
                                    {{[](FileSystem& files) { return saved_and_pruned(files, 30, 1); }, 1},
                                     {[](FileSystem& files) { return saved_and_pruned(files, 20, 2); }, 2}},
                                    nothing_later_is_touched);
  EXPECT_EQ(orders.violation, "");
  EXPECT_THAT(orders.results, Contains(ElementsAre("saved", "saved")));
}

// The later one takes the earlier one's unfinished folder for an orphan, at any moment of the save.
TEST(EveryOrder, OfASaveWhoseFolderIsTakenForAnOrphan) {
  RecordingFileSystem disk;
  save_small(disk, 10, 1);
  const Orders orders = every_order(disk,
                                    {{[](FileSystem& files) {
                                        save_small(files, 20, 1);
                                        return "saved";
                                      },
                                      1},
                                     {[](FileSystem& files) {
                                        prune_unread(files, kInterleavingFolder, {.keep_last = 1}, 2, 1e9);
                                        return "pruned";
                                      },
                                      2}},
                                    nothing_later_is_touched, {.open_folders = true});
  EXPECT_EQ(orders.violation, "");
  EXPECT_THAT(orders.results, Contains(ElementsAre("saved", "pruned")));
  EXPECT_THAT(orders.results, Contains(ElementsAre("error 73", "pruned")));
}

std::string claimed_and_saved(FileSystem& files) {
  const int64_t generation = claim_generation(files, kInterleavingFolder, 2);
  save_small(files, 20, generation);
  return std::to_string(generation);
}

TEST(EveryOrder, OfThreeClaimsGivesThreeGenerations) {
  RecordingFileSystem disk;
  save_small(disk, 10, 4);
  const auto claim = [](FileSystem& files) {
    return std::to_string(claim_generation(files, kInterleavingFolder, 2));
  };
  const Orders orders = every_order(disk, {{claim, 0}, {claim, 0}, {claim, 0}}, [](auto&...) { return ""; });
  EXPECT_EQ(orders.results.size(), 6u);
  for (std::vector<std::string> results : orders.results) {
    std::sort(results.begin(), results.end());
    EXPECT_THAT(results, ElementsAre("5", "6", "7"));
  }
}

TEST(EveryOrder, OfTwoStartsThatClaimAndSaveNeverSharesANumber) {
  RecordingFileSystem disk;
  save_small(disk, 10, 4);
  const Orders orders =
      every_order(disk, {{claimed_and_saved, 0}, {claimed_and_saved, 0}}, [](auto&...) { return ""; });
  EXPECT_THAT(orders.results, ::testing::IsSupersetOf(std::vector<std::vector<std::string>>{
                                  {"5", "6"}, {"6", "5"}, {"error 76", "6"}}));
  for (const auto& results : orders.results) EXPECT_NE(results[0], results[1]);
}

// Between listing and reading, what was listed may go: something newer is there then.
TEST(EveryOrder, OfAReaderAndAWriterFindsACheckpoint) {
  RecordingFileSystem disk;
  save_small(disk, 10, 1);
  const Orders orders =
      every_order(disk,
                  {{[](FileSystem& files) {
                      const Search search = find_newest_valid(files, kInterleavingFolder);
                      return search.newest ? std::to_string(search.newest->manifest().step) : "nothing";
                    },
                    0},
                   {[](FileSystem& files) {
                      saved_and_pruned(files, 20, 1);
                      return saved_and_pruned(files, 30, 1);
                    },
                    1}},
                  [](auto&...) { return ""; });
  EXPECT_THAT(orders.results, ElementsAre(ElementsAre("10", "saved"), ElementsAre("20", "saved"),
                                          ElementsAre("30", "saved")));
}

// What the protocol was before: a look at who has saved, then a rename to a name that others use too. The
// check must find its fault.
std::string saved_as_before(FileSystem& files, int64_t step, int64_t generation) {
  CheckpointWriter writer(files, kInterleavingFolder, step, generation);
  write_small_file(files, writer, static_cast<uint64_t>(100 * generation + step));
  const auto made = writer.commit({.run_id = "test", .wall_time = "2026-01-01T00:00:00Z"});
  const auto target = kInterleavingFolder / CheckpointName{.step = step}.text();
  if (newest_committed_generation(files, kInterleavingFolder) > generation) return "fenced";
  if (files.exists(target)) {
    const auto displaced =
        kInterleavingFolder / fmt::format("{}.replaced-{}", target.filename().string(), generation);
    files.rename(target, displaced);
    files.rename(made, target);
    discard_folder(files, displaced);
  } else {
    files.rename(made, target);
  }
  return "saved";
}

TEST(EveryOrder, FindsTheFaultOfNamesThatAreShared) {
  RecordingFileSystem disk;
  save_small(disk, 10, 1);
  const Orders orders = every_order(disk,
                                    {{[](FileSystem& files) { return saved_as_before(files, 20, 1); }, 1},
                                     {[](FileSystem& files) { return saved_as_before(files, 20, 2); }, 2}},
                                    nothing_later_is_touched);
  EXPECT_THAT(orders.violation, ::testing::HasSubstr("generation 1 took step-000000020"));
}

}  // namespace
}  // namespace longhaul::storage::interleaving_test
