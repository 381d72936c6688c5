// Messages between processes of one machine, here between threads that have a wire each: order by tag, sizes
// around every boundary, what is given up, and the end of a process. That all calls work over it: the tests
// of communicators, run over it (comm.on_shared_memory).
#include "comm/gloo/shared_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "comm/gloo/wire.h"

namespace longhaul::comm {
namespace {

// Wires of all ranks, connected to each other.
std::vector<std::unique_ptr<SharedWire>> wires_of(int64_t size) {
  std::vector<std::unique_ptr<SharedWire>> wires;
  std::vector<std::string> addresses;
  for (int64_t rank = 0; rank < size; ++rank) {
    wires.push_back(std::make_unique<SharedWire>(rank, size));
    addresses.push_back(wires.back()->address());
  }
  for (auto& wire : wires) {
    const std::vector<bool> reached = wire->open(addresses);
    EXPECT_EQ(std::count(reached.begin(), reached.end(), true), size - 1);
    wire->start(reached);
  }
  return wires;
}

std::vector<std::byte> bytes_of(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(SharedLane, IsARingOfRecords) {
  constexpr size_t kCapacity = 1024;
  alignas(64) std::array<std::byte, 4096> memory{};
  ASSERT_LE(SharedLane::bytes(kCapacity), memory.size());
  SharedLane writer(memory.data(), kCapacity), reader(memory.data(), kCapacity);
  std::mt19937_64 random(3);
  std::deque<std::vector<std::byte>> under_way;
  LaneRecord record;
  EXPECT_FALSE(reader.peek(record));
  EXPECT_EQ(writer.room(), 1024 - 32);
  uint64_t sent = 0, taken = 0;
  for (int turn = 0; turn < 20'000; ++turn) {
    if (random() % 2 == 0) {
      const auto payload = bytes_of(random() % 400, sent);
      const int64_t padded = (static_cast<int64_t>(payload.size()) + 31) / 32 * 32;
      const bool fits = padded <= writer.room();
      ASSERT_EQ(writer.put({.count = static_cast<uint32_t>(payload.size()), .id = sent}, payload.data()),
                fits);
      if (fits) under_way.push_back(payload), ++sent;
    } else if (reader.peek(record)) {
      ASSERT_EQ(record.id, taken++);
      std::vector<std::byte> got(record.count);
      reader.take(record, got.data());
      ASSERT_EQ(got, under_way.front());
      under_way.pop_front();
    } else {
      ASSERT_TRUE(under_way.empty());
    }
  }
  EXPECT_GT(sent, 5000u);
}

TEST(SharedWire, CarriesMessagesOfEverySize) {
  auto wires = wires_of(2);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{31}, size_t{4096}, size_t{4097}, size_t{128} << 10,
                             (size_t{128} << 10) + 1, (size_t{1} << 20) + 5, (size_t{9} << 20) + 3}) {
    const auto there = bytes_of(count, count), back = bytes_of(count, count + 1);
    std::vector<std::byte> got(count), got_back(count);
    const auto a = wires[0]->send(1, 5, there.data(), count), b = wires[1]->send(0, 5, back.data(), count);
    const auto c = wires[1]->receive(0, 5, got.data(), count),
               d = wires[0]->receive(1, 5, got_back.data(), count);
    for (const auto& one : {a.get(), b.get(), c.get(), d.get()}) EXPECT_TRUE(one->wait()) << count;
    EXPECT_EQ(got, there) << count;
    EXPECT_EQ(got_back, back) << count;
  }
}

// Receives of other tags come in any order, before and after what was sent; of one tag the n-th is the n-th.
TEST(SharedWire, MatchesByTagInOrder) {
  constexpr int64_t kWorld = 3, kTags = 5, kEach = 40;
  auto wires = wires_of(kWorld);
  std::vector<std::thread> ranks;
  const auto size_of = [](int64_t from, int64_t to, int64_t tag, int64_t n) {
    return static_cast<size_t>((from * 7919 + to * 104'729 + tag * 1299 + n * 3571) % 9000 +
                               (n % 10 == 0 ? 300'000 : 1));
  };
  const auto seed_of = [](int64_t from, int64_t to, int64_t tag, int64_t n) {
    return static_cast<uint64_t>(((from * 10 + to) * 10 + tag) * 1000 + n);
  };
  std::atomic<int64_t> right{0};
  for (int64_t self = 0; self < kWorld; ++self) {
    ranks.emplace_back([&, self] {
      std::mt19937_64 random(static_cast<uint64_t>(self));
      struct Job {
        int64_t peer, tag;
        bool sends;
      };
      std::vector<Job> jobs;
      for (int64_t peer = 0; peer < kWorld; ++peer) {
        for (int64_t tag = 0; peer != self && tag < kTags; ++tag) {
          for (int64_t n = 0; n < kEach; ++n)
            jobs.push_back({peer, tag, true}), jobs.push_back({peer, tag, false});
        }
      }
      std::shuffle(jobs.begin(), jobs.end(), random);
      std::map<std::tuple<int64_t, int64_t, bool>, int64_t> done;
      std::list<std::vector<std::byte>> memory;
      std::vector<std::unique_ptr<Transmission>> all;
      std::vector<std::pair<const std::vector<std::byte>*, uint64_t>> expected;
      for (const Job& job : jobs) {
        const int64_t n = done[{job.peer, job.tag, job.sends}]++;
        if (job.sends) {
          const auto& bytes = memory.emplace_back(
              bytes_of(size_of(self, job.peer, job.tag, n), seed_of(self, job.peer, job.tag, n)));
          all.push_back(
              wires[static_cast<size_t>(self)]->send(job.peer, job.tag, bytes.data(), bytes.size()));
        } else {
          auto& bytes = memory.emplace_back(size_of(job.peer, self, job.tag, n));
          all.push_back(
              wires[static_cast<size_t>(self)]->receive(job.peer, job.tag, bytes.data(), bytes.size()));
          expected.emplace_back(&bytes, seed_of(job.peer, self, job.tag, n));
        }
      }
      for (const auto& one : all) EXPECT_TRUE(one->wait());
      for (const auto& [bytes, seed] : expected) right += *bytes == bytes_of(bytes->size(), seed);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(right, kWorld * (kWorld - 1) * kTags * kEach);
}

TEST(SharedWire, IsSentOnceItsReceiveIsPosted) {
  auto wires = wires_of(2);
  for (const size_t count : {size_t{100}, size_t{2} << 20}) {
    const auto there = bytes_of(count, 1);
    std::vector<std::byte> got(count);
    const auto sent = wires[0]->send(1, 0, there.data(), count);
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      sent->stop();
    });
    EXPECT_FALSE(sent->wait()) << "nobody receives it";
    stopper.join();
    const auto received = wires[1]->receive(0, 0, got.data(), count);
    EXPECT_TRUE(received->wait());
    EXPECT_EQ(got, there);
  }
}

TEST(SharedWire, NobodyTouchesMemoryThatWasGivenUp) {
  auto wires = wires_of(2);
  const auto there = bytes_of(3 << 20, 1);
  {
    std::vector<std::byte> gone(there.size());
    // given up before anything is sent: the next receive has the first message
    wires[1]->receive(0, 1, gone.data(), gone.size());
  }
  std::vector<std::byte> got(there.size());
  const auto received = wires[1]->receive(0, 1, got.data(), got.size());
  const auto sent = wires[0]->send(1, 1, there.data(), there.size());
  EXPECT_TRUE(received->wait());
  EXPECT_TRUE(sent->wait());
  EXPECT_EQ(got, there);
  {
    const auto lost = bytes_of(there.size(), 2);
    wires[0]->send(1, 2, lost.data(), lost.size());
  }
  std::vector<std::byte> nothing(there.size());
  const auto waits = wires[1]->receive(0, 2, nothing.data(), nothing.size());
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    waits->stop();
  });
  EXPECT_FALSE(waits->wait());
  stopper.join();
}

TEST(SharedWire, AnotherLengthThanExpectedIsAnError) {
  auto wires = wires_of(2);
  for (const size_t count : {size_t{64}, size_t{1} << 20}) {
    const auto there = bytes_of(count, 1);
    std::vector<std::byte> got(count + 32, std::byte{9});
    const auto sent = wires[0]->send(1, 3, there.data(), count);
    const auto received = wires[1]->receive(0, 3, got.data(), got.size());
    EXPECT_THROW(received->wait(), std::runtime_error);
    EXPECT_TRUE(sent->wait());
    EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{9}), static_cast<std::ptrdiff_t>(got.size()))
        << "nothing was written";
  }
}

TEST(SharedWire, AProcessThatEndsBreaksWhatWaitsForItOnly) {
  SharedWire mine(0, 3);
  int to_parent[2], to_child[2];
  ASSERT_EQ(::pipe(to_parent) + ::pipe(to_child), 0);
  const std::string own = mine.address();
  const pid_t child = ::fork();
  if (child == 0) {
    {
      SharedWire theirs(1, 3);
      [[maybe_unused]] const ssize_t told =
          ::write(to_parent[1], theirs.address().c_str(), theirs.address().size() + 1);
      const std::vector<bool> reached = theirs.open({own, "", "none"});
      theirs.start(reached);
      const auto sent = theirs.send(0, 4, "last words", 10);
      sent->wait();
      char byte;
      [[maybe_unused]] const ssize_t heard = ::read(to_child[0], &byte, 1);
      ::_exit(0);
    }
  }
  std::array<char, 200> address{};
  ASSERT_GT(::read(to_parent[0], address.data(), address.size()), 0);
  const std::vector<bool> reached = mine.open({"", address.data(), "none"});
  EXPECT_EQ(reached, (std::vector<bool>{false, true, false}));
  mine.start(reached);
  EXPECT_FALSE(mine.reaches(2));
  std::array<char, 10> words{};
  EXPECT_TRUE(mine.receive(1, 4, words.data(), 10)->wait());
  EXPECT_EQ(std::string(words.data(), 10), "last words");
  const auto never = mine.receive(1, 4, words.data(), 10);
  std::vector<std::byte> much(5 << 20);
  const auto unsent = mine.send(1, 4, much.data(), much.size());
  const Stopwatch watch;
  ASSERT_EQ(::write(to_child[1], "x", 1), 1);
  EXPECT_THROW(never->wait(), std::runtime_error);
  EXPECT_THROW(unsent->wait(), std::runtime_error);
  EXPECT_LT(watch.seconds(), 20);
  EXPECT_THROW(mine.send(1, 4, much.data(), 1)->wait(), std::runtime_error) << "known to have ended";
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(end);
}

}  // namespace
}  // namespace longhaul::comm
