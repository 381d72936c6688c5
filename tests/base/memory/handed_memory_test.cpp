#include "base/memory/handed_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/clock.h"

namespace longhaul {
namespace {

TEST(HandedMemory, IsTheSameMemoryWhereverItIsOpened) {
  const HandedMemory mine = HandedMemory::make(5000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mine.data()) % 64, 0u);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(mine.data()[i], std::byte{0});
  const auto theirs = HandedMemory::open(mine.address(), 5000);
  ASSERT_TRUE(theirs);
  theirs->data()[4999] = std::byte{7};
  EXPECT_EQ(mine.data()[4999], std::byte{7});
  EXPECT_TRUE(theirs->maker_lives());
}

TEST(HandedMemory, WhatIsNotItIsNotOpened) {
  const HandedMemory mine = HandedMemory::make(5000);
  EXPECT_FALSE(HandedMemory::open(mine.address(), 4999)) << "another size";
  EXPECT_FALSE(HandedMemory::open(mine.address() + "1", 5000))
      << "another number: the process's number is used again";
  for (const char* address : {"", "none", "1 2", "999999999 3 4", "-1 -1 -1"})
    EXPECT_FALSE(HandedMemory::open(address, 5000)) << address;
}

TEST(HandedMemory, OthersSeeItsMakerEnd) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(::pipe(to_parent) + ::pipe(to_child), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const HandedMemory made = HandedMemory::make(64);
    std::memcpy(made.data(), "hello", 5);
    [[maybe_unused]] const ssize_t told =
        ::write(to_parent[1], made.address().c_str(), made.address().size() + 1);
    char byte;
    [[maybe_unused]] const ssize_t heard = ::read(to_child[0], &byte, 1);
    ::_exit(0);
  }
  std::array<char, 200> address{};
  ASSERT_GT(::read(to_parent[0], address.data(), address.size()), 0);
  const auto theirs = HandedMemory::open(address.data(), 64);
  ASSERT_TRUE(theirs);
  EXPECT_TRUE(theirs->maker_lives());
  ASSERT_EQ(::write(to_child[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(theirs->maker_lives());
  EXPECT_EQ(std::memcmp(theirs->data(), "hello", 5), 0) << "the memory stays";
  EXPECT_FALSE(HandedMemory::open(address.data(), 64)) << "nobody has it any more under its address";
  for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(end);
}

TEST(HandedMemory, ASleeperIsWokenThroughAnotherMapping) {
  const HandedMemory mine = HandedMemory::make(64);
  const auto theirs = HandedMemory::open(mine.address(), 64);
  ASSERT_TRUE(theirs);
  auto& word = *reinterpret_cast<std::atomic<uint32_t>*>(mine.data());
  auto& same = *reinterpret_cast<std::atomic<uint32_t>*>(theirs->data());
  const Stopwatch watch;
  std::thread sleeper([&] {
    while (word.load() == 0) sleep_while(word, 0, std::chrono::seconds(60));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  same.store(1);
  wake_all(same);
  sleeper.join();
  EXPECT_LT(watch.seconds(), 30) << "woken, not timed out";
  sleep_while(word, 0, std::chrono::seconds(60));  // it is 1 already: returns at once
  sleep_while(word, 1, std::chrono::milliseconds(5));
}

}  // namespace
}  // namespace longhaul
