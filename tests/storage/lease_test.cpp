// Leases: a checkpoint that a process reads stays, whichever of the two comes first; one whose reader is
// dead, or whose lease is old, does not.
#include "storage/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "files_for_tests.h"
#include "support/storage/wrapped_file_system.h"

namespace longhaul::storage::lease_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class Lease : public ::testing::Test {
 protected:
  Lease() {
    for (const int64_t step : {10, 20, 30, 40})
      save_test_checkpoint(files_, all_, step, 1, static_cast<uint64_t>(step));
  }
  fs::path of(int64_t step) const { return all_ / name_of_save(step, 1); }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    for (const std::string& name : committed_names(files_, all_))
      found.push_back(parse_checkpoint_name(name)->step);
    return found;
  }
  std::vector<std::string> lease_files() const {
    std::vector<std::string> found;
    for (const FolderEntry& entry : files_.list(all_)) {
      if (entry.name.find(".lease-") != std::string::npos) found.push_back(entry.name);
    }
    return found;
  }
  PruneReport keep_one(double now_s = wall_time_s()) {
    return prune_unread(files_, all_, {.keep_last = 1}, 1, now_s);
  }

  TemporaryFolder folder_;
  fs::path all_ = folder_.path() / "checkpoints";
  LocalFileSystem& files_ = local_file_system();
};

TEST_F(Lease, KeepsItsCheckpointUntilItIsReleased) {
  CheckpointLease lease(files_, of(20));
  EXPECT_TRUE(lease.held());
  EXPECT_THAT(prune_unread(files_, all_, {.keep_last = 1}, 1, wall_time_s(), Prune::kOnlyReport).removed,
              UnorderedElementsAre(of(10), of(30)))
      << "what is asked before is told the same";
  const PruneReport report = keep_one();
  EXPECT_THAT(steps(), ElementsAre(20, 40));
  EXPECT_THAT(report.removed, SizeIs(2));
  std::string reason;
  for (const PruneReport::Kept& kept : report.kept) reason += kept.path == of(20) ? kept.reason : "";
  EXPECT_THAT(reason, HasSubstr("process " + std::to_string(::getpid()) + " on "));
  EXPECT_NO_THROW(Checkpoint::open(files_, of(20)).verify());
  CheckpointLease moved = std::move(lease);
  EXPECT_FALSE(lease.held());  // NOLINT: a moved lease holds nothing
  keep_one();
  EXPECT_THAT(steps(), ElementsAre(20, 40));
  moved.release();
  EXPECT_THAT(lease_files(), IsEmpty());
  keep_one();
  EXPECT_THAT(steps(), ElementsAre(40));
}

TEST_F(Lease, EachReaderHasOne) {
  auto first = std::make_optional<CheckpointLease>(files_, of(10));
  auto second = std::make_optional<CheckpointLease>(files_, of(10));
  EXPECT_THAT(lease_files(), SizeIs(2));
  first.reset();
  keep_one();
  EXPECT_THAT(steps(), ElementsAre(10, 40));
  second.reset();
  keep_one();
  EXPECT_THAT(steps(), ElementsAre(40));
}

TEST_F(Lease, EndsWithItsTime) {
  const CheckpointLease lease(files_, of(20), 100);
  keep_one(wall_time_s() + 90);
  EXPECT_THAT(steps(), ElementsAre(20, 40));
  keep_one(wall_time_s() + 110);
  EXPECT_THAT(steps(), ElementsAre(40));
  EXPECT_THAT(lease_files(), IsEmpty()) << "what is spent is removed with it";
}

// The reader is killed while it reads: its lease stays, and counts no more, whether its parent has heard of
// its end or not.
TEST_F(Lease, EndsWithItsProcess) {
  for (const bool heard : {false, true}) {
    save_test_checkpoint(files_, all_, 20, heard ? 3 : 2, 7);
    save_test_checkpoint(files_, all_, 50, heard ? 3 : 2, 7);
    const fs::path leased = all_ / name_of_save(20, heard ? 3 : 2);
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t reader = ::fork();
    if (reader == 0) {
      const CheckpointLease lease(files_, leased);
      const char done = lease.held() ? 'y' : 'n';
      [[maybe_unused]] const ssize_t written = ::write(pipe_ends[1], &done, 1);
      for (;;) ::pause();
    }
    char taken = 0;
    ASSERT_EQ(::read(pipe_ends[0], &taken, 1), 1);
    EXPECT_EQ(taken, 'y');
    const auto prune_all = [&] { prune_unread(files_, all_, {.keep_last = 1}, 9, wall_time_s()); };
    prune_all();
    EXPECT_TRUE(files_.exists(leased)) << "process " << reader << " reads it";
    ::kill(reader, SIGKILL);
    int status = 0;
    if (heard) {
      ASSERT_EQ(::waitpid(reader, &status, 0), reader);
    } else {
      siginfo_t info{};
      ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(reader), &info, WEXITED | WNOWAIT), 0);
    }
    EXPECT_THAT(lease_files(), SizeIs(1));
    prune_all();
    EXPECT_FALSE(files_.exists(leased));
    EXPECT_THAT(lease_files(), IsEmpty());
    if (!heard) ::waitpid(reader, &status, 0);
    ::close(pipe_ends[0]), ::close(pipe_ends[1]);
  }
}

// The number of a process that is gone was given to another one; a machine that nobody can ask; a file that
// is half written.
TEST_F(Lease, OfOthersAreReadWithCare) {
  const auto write = [&](int64_t step, const std::string& text) {
    write_synced(files_, of(step).string() + ".lease-other-1-1", text);
  };
  const auto lease_of = [&](const ProcessIdentity& who, double until_s) {
    return fmt::format(R"({{"host":"{}","machine":"{}","process":{},"started":{},"until":{:.3f}}})", who.host,
                       who.machine, who.process, who.started, until_s);
  };
  ProcessIdentity own = own_identity(), reused = own, elsewhere = own;
  reused.started += 1;
  elsewhere.machine = "another", elsewhere.host = "node-7", elsewhere.process = 1 << 30;
  const double now = wall_time_s();
  write(10, lease_of(reused, now + 1000));
  write(20, lease_of(elsewhere, now + 1000));
  write(30, "");
  const PruneReport report = keep_one();
  EXPECT_THAT(steps(), ElementsAre(20, 30, 40));
  std::string reasons;
  for (const PruneReport::Kept& kept : report.kept) reasons += kept.reason + "\n";
  EXPECT_THAT(reasons, HasSubstr("on node-7 reads it"));
  keep_one(now + 1001);
  EXPECT_THAT(steps(), ElementsAre(30, 40)) << "node-7 may have died without a word";
  keep_one(now + kLeaseSeconds + 100);
  EXPECT_THAT(steps(), ElementsAre(40));
  EXPECT_THAT(lease_files(), IsEmpty());
}

// Does something behind the first renaming, or before the first lease is written.
class Between final : public WrappedFileSystem {
 public:
  using WrappedFileSystem::WrappedFileSystem;
  std::function<void()> behind_rename, before_lease;
  void rename(const fs::path& from, const fs::path& to) override {
    WrappedFileSystem::rename(from, to);
    if (auto now = std::exchange(behind_rename, nullptr)) now();
  }
  std::unique_ptr<FileWriter> create(const fs::path& path) override {
    const bool lease = path.filename().string().find(".lease-") != std::string::npos;
    if (auto now = lease ? std::exchange(before_lease, nullptr) : nullptr) now();
    return WrappedFileSystem::create(path);
  }
};

// A lease that is taken while the checkpoint is being removed: it comes back whole.
TEST_F(Lease, OfTheLastMomentBringsTheCheckpointBack) {
  Between between(files_);
  std::optional<CheckpointLease> lease;
  between.behind_rename = [&] { lease.emplace(files_, of(10)); };
  const PruneReport report = prune_unread(between, all_, {.keep_last = 3}, 1, wall_time_s());
  EXPECT_THAT(report.removed, IsEmpty());
  EXPECT_THAT(steps(), ElementsAre(10, 20, 30, 40));
  EXPECT_NO_THROW(Checkpoint::open(files_, of(10)).verify());
  EXPECT_EQ(report.kept.back().path, of(10));
}

// A checkpoint that was removed between choosing and leasing it is not returned.
TEST_F(Lease, OpeningChoosesAgainWhenItsChoiceWasRemoved) {
  Between between(files_);
  between.before_lease = [&] {
    save_test_checkpoint(files_, all_, 50, 1, 50);
    keep_one();
  };
  const Leased leased = open_leased(between, all_);
  EXPECT_EQ(leased.checkpoint.manifest().step, 50);
  EXPECT_TRUE(leased.lease.held());
  EXPECT_THAT(lease_files(), SizeIs(1));
  EXPECT_THAT(lease_files()[0], HasSubstr(name_of_save(50, 1) + ".lease-"));
}

TEST_F(Lease, WithoutRoomForItReadingGoesOn) {
  class Refusing final : public WrappedFileSystem {
   public:
    using WrappedFileSystem::WrappedFileSystem;
    std::unique_ptr<FileWriter> create(const fs::path& path) override {
      throw Error(
          {.code = ExitCode::kDisk, .what = "no", .found = "a read-only disk", .where = path.string()});
    }
  } refusing(files_);
  const Leased leased = open_leased(refusing, all_ / name_of_save(20, 1));
  EXPECT_FALSE(leased.lease.held());
  EXPECT_EQ(leased.checkpoint.manifest().step, 20);
}

}  // namespace
}  // namespace longhaul::storage::lease_test
