// What reaches the operating system: fsync of this program is our own, which writes down what it is asked to
// sync and then syncs it.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "base/files/file.h"
#include "files_for_tests.h"

namespace {

std::mutex g_mutex;
std::vector<std::string> g_synced;  // paths, in order

}  // namespace

extern "C" int fsync(int descriptor) {
  char path[4096] = {};
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path, sizeof path - 1);
  {
    const std::lock_guard hold(g_mutex);
    g_synced.emplace_back(path, length > 0 ? static_cast<size_t>(length) : 0);
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace longhaul::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LocalDisk : public ::testing::Test {
 protected:
  LocalDisk()
      : folder_(fs::canonical(::testing::TempDir()) / ("longhaul-disk-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~LocalDisk() override { fs::remove_all(folder_); }

  // What was synced since the last call, relative to the folder.
  std::vector<std::string> synced() const {
    const std::lock_guard hold(g_mutex);
    std::vector<std::string> found;
    for (const std::string& path : g_synced)
      found.push_back(fs::path(path).lexically_relative(folder_).string());
    g_synced.clear();
    return found;
  }

  fs::path folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(LocalDisk, SyncsReachTheOperatingSystemAndNothingElseDoes) {
  synced();
  const auto writer = files_.create(folder_ / "a");
  writer->write(std::as_bytes(std::span("abc", 3)));
  EXPECT_THAT(synced(), IsEmpty());
  writer->sync();
  EXPECT_THAT(synced(), ElementsAre("a"));
  writer->close();
  files_.rename(folder_ / "a", folder_ / "b");
  files_.make_folders(folder_ / "c");
  files_.remove(folder_ / "b");
  EXPECT_THAT(synced(), IsEmpty()) << "names become durable when the protocol says so";
  files_.sync_folder(folder_);
  EXPECT_THAT(synced(), ElementsAre("."));
}

// docs/formats/checkpoint.md, line by line.
TEST_F(LocalDisk, ASaveSyncsWhatTheProtocolSaysInItsOrder) {
  const auto checkpoints = folder_ / "run" / "checkpoints";
  synced();
  EXPECT_EQ(claim_generation(files_, checkpoints, 0), 1);
  EXPECT_THAT(synced(), ElementsAre(".", "run", "run/checkpoints", "run/checkpoints/.generations"));
  save_test_checkpoint(files_, checkpoints, 7, 1, 3);
  const std::string temporary = "run/checkpoints/step-000000007.tmp-1";
  EXPECT_THAT(synced(),
              ElementsAre(temporary + "/rank-00000.safetensors", temporary + "/rank-00001.safetensors",
                          temporary + "/manifest.tmp", temporary + "/latest", temporary,
                          "run/checkpoints" /*it exists*/, "run/checkpoints" /*latest*/));
  save_test_checkpoint(files_, checkpoints, 8, 1, 4);
  synced();
  prune_unread(files_, checkpoints, {.keep_last = 1}, 1, 0);
  EXPECT_THAT(synced(), ElementsAre("run/checkpoints")) << "before the first file goes";
}

TEST_F(LocalDisk, ANameGoesToOneOfManyThreads) {
  std::atomic<int> got = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int name = 0; name < 50; ++name)
        got += files_.make_new_folder(folder_ / std::to_string(name)) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, 50);
  EXPECT_EQ(error_of([&] { files_.make_new_folder(folder_ / "no" / "such"); }).code(), ExitCode::kDisk);
}

TEST_F(LocalDisk, FreeBytesAreThoseOfTheNearestFolder) {
  const int64_t here = files_.free_bytes(folder_), below = files_.free_bytes(folder_ / "not" / "yet");
  EXPECT_GT(here, 0);
  EXPECT_NEAR(static_cast<double>(here), static_cast<double>(below), 1e9);  // others write meanwhile
}

}  // namespace
}  // namespace longhaul::storage
