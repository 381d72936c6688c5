// ctest: label=fault timeout=300
// Crash safety, proved on the recorded log: a save of a second and a third checkpoint over existing ones,
// with retention, is cut after every operation; what was not yet durable survives in every combination (small
// logs) or with each operation alone lost, kept, torn or zeroed (large ones). Loading must find the old or
// the new checkpoint, whole.
#include <gmock/gmock.h>

#include <algorithm>
#include <tuple>

#include "files_for_tests.h"
#include "support/storage/fault_file_system.h"
#include "support/storage/recording_file_system.h"
#include "support/storage/wrapped_file_system.h"

namespace longhaul::storage::crash_test {
namespace {

const std::filesystem::path kCrashFolder = "/run/checkpoints";

// What a checkpoint's manifest says was put into it, after every byte was verified against what that seed
// writes.
uint64_t verified_seed(const Checkpoint& checkpoint) {
  const auto seed = checkpoint.manifest().state.at("seed_of_contents").get<uint64_t>();
  EXPECT_EQ(checkpoint.read_tensor("layers.0.weight"), random_bytes(96, seed));
  EXPECT_EQ(checkpoint.read_tensor("norm"), random_bytes(8, seed + 1));
  EXPECT_EQ(checkpoint.read_tensor("optimizer.count"), random_bytes(8, seed + 2));
  return seed;
}

struct Replay {
  size_t states = 0, found_old = 0, found_new = 0;
  size_t prefixes = 0, exhaustive = 0;  // of them with every subset
};

void check_state(const RecordingFileSystem& disk, uint64_t older, uint64_t newer, bool returned,
                 Replay& replay) {
  const Search search = find_newest_valid(disk, kCrashFolder);
  ++replay.states;
  ASSERT_TRUE(search.newest.has_value()) << "nothing loads";
  const uint64_t seed = verified_seed(*search.newest);
  if (returned) {
    ASSERT_EQ(seed, newer) << "a committed checkpoint was lost";
  } else {
    ASSERT_TRUE(seed == older || seed == newer) << seed;
  }
  ++(seed == newer ? replay.found_new : replay.found_old);
}

// All states a crash after `prefix` operations may leave. Operations before `begin` (the removals of an
// earlier save that were never synced) are all lost or all there; the later ones go through every subset.
void check_prefix(const RecordingFileSystem& disk, size_t begin, size_t prefix, uint64_t older,
                  uint64_t newer, bool returned, Replay& replay) {
  using Kind = Survival::Kind;
  const std::vector<size_t> pending = disk.pending(prefix);
  const auto check = [&](const std::function<Survival(size_t)>& survival) {
    check_state(*disk.after_crash(prefix, survival), older, newer, returned, replay);
  };
  const auto first_recent = std::lower_bound(pending.begin(), pending.end(), begin);
  const auto recent = static_cast<size_t>(pending.end() - first_recent);
  if (recent <= 10) {
    for (size_t subset = 0; subset < size_t{2} << recent; ++subset) {
      check([&](size_t operation) {
        const size_t bit = operation < begin
                               ? recent
                               : static_cast<size_t>(
                                     std::lower_bound(first_recent, pending.end(), operation) - first_recent);
        return Survival{(subset >> bit & 1) != 0 ? Kind::kWhole : Kind::kLost};
      });
    }
    ++replay.exhaustive;
  }
  for (const bool others : {false, true}) {
    const Survival rest{others ? Kind::kWhole : Kind::kLost};
    check([&](size_t) { return rest; });
    for (const size_t chosen : pending) {
      const auto one = [&](Survival survival) {
        check([&](size_t operation) { return operation == chosen ? survival : rest; });
      };
      one({others ? Kind::kLost : Kind::kWhole});
      const auto bytes = static_cast<int64_t>(disk.log()[chosen].data.size());
      if (bytes == 0) continue;
      one({Kind::kZeros});
      for (int64_t torn = 1; torn < bytes; torn += std::max<int64_t>(1, bytes / 7)) one({Kind::kTorn, torn});
    }
  }
}

TEST(CrashReplay, EveryPrefixAndUnsyncedSubsetLoadsOldOrNew) {
  RecordingFileSystem disk;
  RetentionPolicy policy{.keep_last = 1};
  save_test_checkpoint(disk, kCrashFolder, 10, 1, 100);
  Replay replay;
  size_t begin = disk.log().size();
  uint64_t older = 100;
  for (const auto& [step, generation, seed] : std::vector<std::tuple<int64_t, int64_t, uint64_t>>{
           {20, 1, 200}, {30, 2, 300}, {30, 3, 400} /*the same step again, after a rollback*/}) {
    save_test_checkpoint(disk, kCrashFolder, step, generation, seed);
    const size_t committed = disk.log().size();
    prune_unread(disk, kCrashFolder, policy, generation, 0);
    for (size_t prefix = begin; prefix <= disk.log().size(); ++prefix) {
      SCOPED_TRACE(fmt::format("step {} generation {} prefix {}", step, generation, prefix));
      ++replay.prefixes;
      check_prefix(disk, begin, prefix, older, seed, prefix >= committed, replay);
      if (::testing::Test::HasFatalFailure()) return;
    }
    begin = disk.log().size() + 1;
    older = seed;
  }
  EXPECT_EQ(list_checkpoints(disk, kCrashFolder).size(), 1u);
  EXPECT_GT(replay.found_old, 100u);
  EXPECT_GT(replay.found_new, 100u);
  EXPECT_EQ(replay.exhaustive, replay.prefixes)
      << "the log grew: raise the limit, or say here why not all subsets are run";
  fmt::print("{} prefixes, {} disk states: {} load the old checkpoint, {} the new one\n", replay.prefixes,
             replay.states, replay.found_old, replay.found_new);
}

// The checker itself must be able to fail: a commit without syncs is caught.
TEST(CrashReplay, MissingSyncWouldBeNoticed) {
  class Forgetful final : public WrappedFileSystem {
   public:
    using WrappedFileSystem::WrappedFileSystem;
    std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override {
      class Writer final : public FileWriter {
       public:
        explicit Writer(std::unique_ptr<FileWriter> inner) : inner_(std::move(inner)) {}
        void write(std::span<const std::byte> data) override { inner_->write(data); }
        void sync() override {}
        void close() override { inner_->close(); }

       private:
        std::unique_ptr<FileWriter> inner_;
      };
      return std::make_unique<Writer>(inner_.create(path));
    }
  };
  RecordingFileSystem disk;
  Forgetful forgetful(disk);
  save_test_checkpoint(forgetful, kCrashFolder, 10, 1, 100);
  const auto crashed =
      disk.after_crash(disk.log().size(), [](size_t) { return Survival{Survival::Kind::kLost}; });
  EXPECT_FALSE(find_newest_valid(*crashed, kCrashFolder).newest.has_value());
}

TEST(DiskFull, AtEveryOperationTheOldCheckpointStays) {
  for (const auto fault :
       {FaultFileSystem::Fault::kNoSpace, FaultFileSystem::Fault::kIo, FaultFileSystem::Fault::kShortWrite}) {
    int64_t operations = 1, failures = 0;
    for (int64_t at = 0; at < operations; ++at) {
      SCOPED_TRACE(fmt::format("fault {} at operation {}", static_cast<int>(fault), at));
      RecordingFileSystem disk;
      save_test_checkpoint(disk, kCrashFolder, 10, 1, 100);
      FaultFileSystem faulty(disk);
      const auto save = [&] {
        save_test_checkpoint(faulty, kCrashFolder, 20, 1, 200);
        prune_unread(faulty, kCrashFolder, {.keep_last = 1}, 1, 0);
      };
      if (at == 0) {
        save();
        operations = faulty.operations();
        ASSERT_GT(operations, 15);
        disk = RecordingFileSystem();
        save_test_checkpoint(disk, kCrashFolder, 10, 1, 100);
      }
      faulty.fail_at(at, fault);
      const Error error = error_of(save);
      EXPECT_EQ(error.code(), ExitCode::kDisk) << error.what();
      ++failures;
      const Search search = find_newest_valid(disk, kCrashFolder);
      ASSERT_TRUE(search.newest.has_value());
      const uint64_t seed = verified_seed(*search.newest);
      EXPECT_TRUE(seed == 100 || seed == 200);
      EXPECT_TRUE(disk.exists(kCrashFolder / name_of_save(10, 1)) || seed == 200);
      // Space returns: the next save works, whatever the failed one left behind.
      faulty.clear();
      save_test_checkpoint(faulty, kCrashFolder, 20, 1, 300);
      const Search after = find_newest_valid(disk, kCrashFolder);
      ASSERT_TRUE(after.newest.has_value());
      EXPECT_EQ(verified_seed(*after.newest), 300u);
    }
    EXPECT_EQ(failures, operations);
  }
}

TEST(DiskFull, SilentBitFlipOnTheWayToTheDiskIsNoticed) {
  for (int64_t write = 0; write < 3; ++write) {
    RecordingFileSystem disk;
    save_test_checkpoint(disk, kCrashFolder, 10, 1, 100);
    FaultFileSystem faulty(disk);
    faulty.flip_bit_of_write(write, 70, 3);
    save_test_checkpoint(faulty, kCrashFolder, 20, 1, 200);
    const PruneReport report = prune_unread(faulty, kCrashFolder, {.keep_last = 1}, 1, 0);
    EXPECT_TRUE(report.removed.empty()) << "nothing goes before the new one is verified";
    const Search search = find_newest_valid(disk, kCrashFolder);
    ASSERT_TRUE(search.newest.has_value());
    EXPECT_EQ(verified_seed(*search.newest), 100u);
    EXPECT_EQ(search.rejected.size(), 1u);
  }
}

}  // namespace
}  // namespace longhaul::storage::crash_test
