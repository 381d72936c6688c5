// Loaders that share: each batch is read once, all get the same, and nobody waits for one who has gone.
#include "data/order/batch_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/threads/worker.h"

namespace longhaul::data {
namespace {

Batch batch_like(int64_t first, int64_t rows) {
  BatchBuilder builder;
  for (int64_t row = 0; row < rows; ++row) {
    for (const int64_t length : {5, 3}) {
      const auto span = builder.add(length);
      for (int64_t i = 0; i < length; ++i)
        span.inputs[i] = first * 100 + row * 10 + i, span.labels[i] = i + 1 < length ? i : -1;
    }
  }
  builder.batch().first_position = first;
  builder.batch().rows = rows;
  builder.batch().sequence = 8;
  builder.batch().target_bytes = 17;
  return builder.finish();
}

// Four readers ask for ten batches each, at their own pace; how often a batch was made.
int64_t made_by_four(const std::function<std::shared_ptr<BatchShare>()>& share_of_reader) {
  std::atomic<int64_t> made = 0;
  Worker workers[4] = {Worker("a"), Worker("b"), Worker("c"), Worker("d")};
  for (int reader = 0; reader < 4; ++reader) {
    workers[reader].post([&, reader] {
      const auto share = share_of_reader();
      for (int64_t step = 0; step < 10; ++step) {
        const Batch batch = share->get(step * 4, 4, [&] {
          ++made;
          return batch_like(step * 4, 4);
        });
        EXPECT_EQ(batch, batch_like(step * 4, 4)) << "reader " << reader;
      }
    });
  }
  for (Worker& worker : workers) worker.wait();
  return made;
}

TEST(BatchShare, ThreadsReadOnce) {
  const auto share = share_between_threads(4);
  EXPECT_EQ(made_by_four([&] { return share; }), 10);
}

TEST(BatchShare, ProcessesReadOnceAndLeaveNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(made_by_four([&] { return share_in_folder(folder.path(), 4); }), 10);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BatchShare, AFailureReachesAll) {
  const TemporaryFolder folder;
  for (const auto& share : {share_between_threads(2), share_in_folder(folder.path(), 2)}) {
    const auto failing = []() -> Batch { throw Error({.code = ExitCode::kData, .what = "a shard is torn"}); };
    EXPECT_THROW(share->get(0, 2, failing), Error);
    EXPECT_THROW(share->get(0, 2, failing), Error) << "at once, by who would have waited";
  }
}

TEST(BatchShare, AMakerThatDiedIsNotWaitedForForEver) {
  const TemporaryFolder folder;
  std::ofstream(folder / "0-2.claim").put(' ');  // it claimed, and is gone
  const auto share = share_in_folder(folder.path(), 2, 0.05);
  EXPECT_EQ(share->get(0, 2, [] { return batch_like(0, 2); }), batch_like(0, 2));
}

TEST(BatchShare, BytesAreTheBatch) {
  const Batch batch = batch_like(3, 2);
  const std::string bytes = to_bytes(batch);
  EXPECT_EQ(batch_from_bytes(bytes), batch);
  EXPECT_EQ(batch_from_bytes(to_bytes(Batch())), Batch());
  for (const size_t length : {size_t{0}, size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_THROW(batch_from_bytes(std::string_view(bytes).substr(0, length)), Error) << length;
  }
  EXPECT_THROW(batch_from_bytes(bytes + "x"), Error);
}

}  // namespace
}  // namespace longhaul::data
