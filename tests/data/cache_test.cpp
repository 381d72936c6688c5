#include "data/tokens/cache.h"

#include <chrono>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/process/signals.h"
#include "data/order/packing.h"
#include "data/run_data.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

class Cache : public testing::Test {
 protected:
  Cache() {
    write_documents(folder_ / "text", 30);
    options_.source = {(folder_ / "text").string()};
    options_.vocabulary = 300;
    make();
    write_file(cache() / "torch-2.13/libtorch.so", "not ours");
    write_file(cache() / "tokens-mine/dataset.json", "not ours");
    write_file(cache() / "tokenizer-mine.json", "not ours");
  }
  std::filesystem::path cache() const { return folder_ / "cache"; }
  RunData make() {
    RunData data = open_run_data(options_, {}, cache());
    Loader(data.train(),
           [&] {
             LoaderOptions loader = with_batch(loader_options(options_, 64), 2);
             loader.index_folder = cache() / "packing";
             return loader;
           }())
        .batch_at(0);
    return data;
  }
  std::set<CacheEntry::Kind> kinds() const {
    std::set<CacheEntry::Kind> result;
    for (const CacheEntry& entry : list_cache(cache())) result.insert(entry.kind);
    return result;
  }
  void make_old() const {
    const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 100);
    for (const auto& file : list_files(cache())) std::filesystem::last_write_time(file, long_ago);
    for (const CacheEntry& entry : list_cache(cache()))
      std::filesystem::last_write_time(entry.path, long_ago);
  }

  TemporaryFolder folder_;
  recipe::DataOptions options_;
};

using enum CacheEntry::Kind;

TEST_F(Cache, ListsWhatRunsLeaveAndNothingElse) {
  const auto entries = list_cache(cache());
  EXPECT_EQ(kinds(), (std::set{kTokens, kTokenizer, kPackingIndex}));
  ASSERT_EQ(entries.size(), 3u);
  for (const CacheEntry& entry : entries) {
    EXPECT_NEAR(entry.used_s, wall_time_s(), 60);
    int64_t bytes = 0;
    if (entry.kind == kTokens) {
      for (const auto& file : list_files(entry.path))
        bytes += static_cast<int64_t>(std::filesystem::file_size(file));
    } else {
      bytes = static_cast<int64_t>(std::filesystem::file_size(entry.path));
    }
    EXPECT_EQ(entry.bytes, bytes);
  }
  EXPECT_TRUE(list_cache(folder_ / "nowhere").empty());
}

TEST_F(Cache, TakingSomethingFromItMakesItRecent) {
  make_old();
  for (const CacheEntry& entry : list_cache(cache()))
    EXPECT_GT(wall_time_s() - entry.used_s, 90 * 86400.0) << entry.path;
  EXPECT_TRUE(make().sources[0].reused);
  for (const CacheEntry& entry : list_cache(cache()))
    EXPECT_NEAR(entry.used_s, wall_time_s(), 60) << entry.path;
}

TEST_F(Cache, WhatIsRemovedIsMadeAgainAndARunThatHasItOpenGoesOn) {
  const RunData running = make();
  const std::string before = running.train()[0]->fingerprint();
  for (const CacheEntry& entry : list_cache(cache())) EXPECT_TRUE(remove_from_cache(entry));
  EXPECT_TRUE(list_cache(cache()).empty());
  EXPECT_EQ(read_file(cache() / "tokens-mine/dataset.json"), "not ours");
  EXPECT_EQ(read_file(cache() / "torch-2.13/libtorch.so"), "not ours");
  EXPECT_GT(text_of(*running.train()[0], 3).size(), 0u);
  running.train()[0]->verify();
  const RunData again = make();
  EXPECT_FALSE(again.sources[0].reused);
  EXPECT_EQ(again.train()[0]->fingerprint(), before);
}

TEST_F(Cache, WhatIsBeingPreparedStays) {
  for (const CacheEntry& entry : list_cache(cache())) {
    if (entry.kind != kTokens) continue;
    const FileLock preparing(entry.path / "preparation");
    EXPECT_FALSE(remove_from_cache(entry));
    EXPECT_TRUE(std::filesystem::exists(entry.path / "dataset.json"));
  }
}

// Two runs that begin at once: one prepares, the other waits for it and takes what it made.
TEST_F(Cache, WhoComesWhileDataIsBeingPreparedWaits) {
  for (const CacheEntry& entry : list_cache(cache())) {
    if (entry.kind == kTokens) std::filesystem::remove(entry.path / "dataset.json");
  }
  std::vector<RunData> made;
  std::mutex mutex;
  const auto run = [&] {
    RunData data = open_run_data(options_, {}, cache());
    const std::scoped_lock lock(mutex);
    made.push_back(std::move(data));
  };
  std::thread first(run), second(run);
  first.join();
  second.join();
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].train()[0]->fingerprint(), made[1].train()[0]->fingerprint());
  EXPECT_EQ(made[0].sources[0].reused + made[1].sources[0].reused, 1) << "prepared once";
}

TEST_F(Cache, ARequestToStopEndsTheWaiting) {
  const std::filesystem::path folder = cache() / "tokens-0123456789abcdef";
  const auto held = lock_preparation(folder);
  std::thread stop([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    request_stop(SIGTERM);
  });
  EXPECT_EQ(error_of([&] { lock_preparation(folder); }).code(), ExitCode::kPreemptedNotSaved);
  stop.join();
  clear_signal_requests();
}

TEST_F(Cache, WhatWasRemovedWhileItWasWaitedForIsMadeAnew) {
  const std::filesystem::path folder = cache() / "tokens-0123456789abcdef";
  auto held = lock_preparation(folder);
  std::unique_ptr<FileLock> next;
  std::thread waits([&] { next = lock_preparation(folder); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::filesystem::remove_all(folder);
  held.reset();
  waits.join();
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(next->is_at_its_path());
}

}  // namespace
}  // namespace longhaul::data
