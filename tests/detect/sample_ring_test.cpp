// The ring of a machine's samples: written, wrapped, gone on with, half written, cut off, with every bit
// turned over once.
#include "detect/samples/sample_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/files/temporary_folder.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHeader = 4096, kRow = 112;  // bytes, as docs/formats/samples.md has them
const RingOwner kNode{.node = "node-3", .host = "rack7", .boot = "5e1f"};

SampleValues values_of(float cpu) {
  SampleValues values = no_values();
  values[metric_named("cpu_usage", "")] = cpu;
  return values;
}
float cpu_of(const RingRow& row) { return row.values[metric_named("cpu_usage", "")]; }

class SampleRingTest : public ::testing::Test {
 protected:
  SampleRingWriter writer(int64_t rows = 10, RingOwner owner = kNode) const {
    return SampleRingWriter::open(path_, owner, rows);
  }
  void write(SampleRingWriter& ring, int first, int last) const {
    for (int second = first; second <= last; ++second)
      ring.write(1000 + second, values_of(static_cast<float>(second)));
  }
  std::vector<float> read() const {
    std::vector<float> found;
    for (const RingRow& row : read_ring(path_).rows) found.push_back(cpu_of(row));
    return found;
  }
  std::string refusal() const {
    try {
      read_ring(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "none";
  }
  void put(int64_t offset, std::string_view bytes) const {
    File::open(path_, File::Mode::kReadWrite).write_at(offset, std::as_bytes(std::span(bytes)));
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "samples/node-3.ring";
};

TEST_F(SampleRingTest, GivesBackWhatWasWritten) {
  SampleRingWriter ring = writer();
  EXPECT_TRUE(read_ring(path_).rows.empty());
  write(ring, 1, 3);
  ring.end(1003.5);
  const SampleRing read = read_ring(path_);
  EXPECT_EQ(read.owner.node, "node-3");
  EXPECT_EQ(read.owner.host, "rack7");
  EXPECT_EQ(read.owner.boot, "5e1f");
  EXPECT_FALSE(read.owner.ranks_alone);
  ASSERT_EQ(read.rows.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.rows[i].time_s, 1001 + static_cast<double>(i));
    EXPECT_EQ(cpu_of(read.rows[i]), static_cast<float>(i + 1));
    EXPECT_FALSE(read.rows[i].ended);
    for (size_t metric = 0; metric < kMetrics; ++metric)
      EXPECT_EQ(std::isnan(read.rows[i].values[metric]), metric != metric_named("cpu_usage", ""));
  }
  EXPECT_TRUE(read.rows[3].ended);
  EXPECT_EQ(read.rows[3].time_s, 1003.5);
  EXPECT_EQ(std::filesystem::file_size(path_), static_cast<uintmax_t>(kHeader + 10 * kRow));
}

TEST_F(SampleRingTest, KeepsTheLastRowsInAFileOfOneSize) {
  SampleRingWriter ring = writer();
  write(ring, 1, 27);
  EXPECT_THAT(read(), ::testing::ElementsAre(18, 19, 20, 21, 22, 23, 24, 25, 26, 27));
  EXPECT_EQ(std::filesystem::file_size(path_), static_cast<uintmax_t>(kHeader + 10 * kRow));
}

TEST_F(SampleRingTest, GoesOnWhereAnEarlierDaemonEnded) {
  for (int start = 0; start < 5; ++start) {
    SampleRingWriter ring = writer();
    write(ring, 3 * start + 1, 3 * start + 3);
  }
  EXPECT_THAT(read(), ::testing::ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  // The machine was started again: another boot, the same samples.
  SampleRingWriter again = writer(10, {.node = "node-3", .host = "rack7", .boot = "new"});
  EXPECT_EQ(read().size(), 10u);
  EXPECT_EQ(read_ring(path_).owner.boot, "new");
  // Another machine under that name, another kind of samples, or another length: from the beginning.
  writer(10, {.node = "node-3", .host = "rack8", .boot = "5e1f"});
  EXPECT_TRUE(read().empty());
  SampleRingWriter other =
      writer(10, {.node = "node-3", .host = "rack8", .boot = "5e1f", .ranks_alone = true});
  write(other, 1, 2);
  EXPECT_TRUE(read_ring(path_).owner.ranks_alone);
  EXPECT_EQ(read().size(), 2u);
  writer(20, {.node = "node-3", .host = "rack8", .boot = "5e1f", .ranks_alone = true});
  EXPECT_TRUE(read().empty());
}

TEST_F(SampleRingTest, ARowThatIsHalfWrittenIsNoRow) {
  SampleRingWriter ring = writer();
  write(ring, 1, 14);
  // The fifteenth stands where the fifth stood: its first half over the second half of that.
  std::string bytes(static_cast<size_t>(kRow / 2), '\0');
  const uint64_t number = 15;
  std::memcpy(bytes.data(), &number, sizeof number);
  put(kHeader + 4 * kRow, bytes);
  const SampleRing torn = read_ring(path_);
  EXPECT_EQ(torn.damaged, 1);
  EXPECT_EQ(torn.last_number, 14u);
  EXPECT_THAT(read(), ::testing::ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14));
  SampleRingWriter next = writer();  // of the daemon that comes after the one that died in it
  write(next, 15, 15);
  EXPECT_EQ(read_ring(path_).damaged, 0);
  EXPECT_THAT(read(), ::testing::ElementsAre(6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

TEST_F(SampleRingTest, ARowOfAnEarlierTurnIsNotTakenForOneOfThis) {
  SampleRingWriter ring = writer();
  write(ring, 1, 10);
  std::string third(static_cast<size_t>(kRow), '\0');
  File::open(path_, File::Mode::kRead)
      .read_exactly(kHeader + 2 * kRow, std::as_writable_bytes(std::span(third)));
  write(ring, 11, 15);
  put(kHeader + 2 * kRow, third);  // number 13 was lost on its way to the disk
  EXPECT_THAT(read(), ::testing::ElementsAre(6, 7, 8, 9, 10, 11, 12, 14, 15));
  put(kHeader + 3 * kRow, third);  // at a place where it never stood
  EXPECT_EQ(read_ring(path_).damaged, 1);
}

TEST_F(SampleRingTest, BitsThatTurnOverAreSeen) {
  SampleRingWriter ring = writer(4);
  write(ring, 1, 4);
  const std::string whole = read_text(path_);
  for (size_t bit = 0; bit < static_cast<size_t>(kRow) * 8; bit += 7) {
    std::string damaged = whole;
    damaged[static_cast<size_t>(kHeader + kRow) + bit / 8] ^= static_cast<char>(1 << bit % 8);
    put(kHeader, std::string_view(damaged).substr(kHeader));
    EXPECT_THAT(read(), ::testing::ElementsAre(1, 3, 4)) << "bit " << bit;
  }
  put(kHeader, std::string_view(whole).substr(kHeader));
  for (size_t byte = 0; byte < kHeader; byte += 13) {
    std::string damaged = whole.substr(0, kHeader);
    damaged[byte] ^= 0x10;
    put(0, damaged);
    EXPECT_NE(refusal(), "none") << "byte " << byte;
  }
  SampleRingWriter anew = writer(4);  // replaces what cannot be read
  EXPECT_TRUE(read().empty());
}

TEST_F(SampleRingTest, FilesThatAreNoWholeRingAreRefused) {
  {
    SampleRingWriter ring = writer();
    write(ring, 1, 5);
  }
  std::filesystem::resize_file(path_, kHeader + 7 * kRow);
  EXPECT_THAT(refusal(), HasSubstr("5216 bytes"));  // 4096 + 10 · 112
  EXPECT_THAT(refusal(), HasSubstr("4880"));
  std::filesystem::resize_file(path_, 100);
  EXPECT_THAT(refusal(), HasSubstr("at least 4096 bytes"));
  std::filesystem::resize_file(path_, 0);
  EXPECT_THAT(refusal(), HasSubstr("at least 4096 bytes"));
  write_text_atomically(path_, std::string(5216, 'x'));
  EXPECT_THAT(refusal(), HasSubstr("LHSAMPLE"));
  EXPECT_NE(refusal(), "none");
  std::filesystem::remove(path_);
  EXPECT_THAT(refusal(), HasSubstr(path_.string()));
}

TEST_F(SampleRingTest, AClockThatIsSetBackUndoesWhatWasAheadOfIt) {
  SampleRingWriter ring = writer();
  write(ring, 1, 3);
  write(ring, 500, 502);  // an hour that was none
  write(ring, 4, 5);
  EXPECT_THAT(read(), ::testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(read_ring(path_).undone, 3);
}

// Whoever reads while it is written never sees half a row: here all values of a row are one number.
TEST_F(SampleRingTest, IsReadWhileItIsWritten) {
  SampleRingWriter ring = writer(64);
  std::atomic<bool> done = false;
  std::thread writes([&] {
    for (int second = 1; second <= 20'000; ++second) {
      SampleValues values;
      values.fill(static_cast<float>(second));
      ring.write(second, values);
    }
    done = true;
  });
  int64_t rows = 0;
  do {
    const SampleRing read = read_ring(path_);
    for (const RingRow& row : read.rows) {
      ++rows;
      for (const float value : row.values) EXPECT_EQ(value, static_cast<float>(row.time_s));
    }
  } while (!done);
  writes.join();
  EXPECT_GT(rows, 0);
  EXPECT_EQ(read_ring(path_).rows.back().time_s, 20'000);
}

}  // namespace
}  // namespace longhaul::detect
