// Sequenced<T>: a trivial value in shared memory that one process writes and others read, always as a whole
// (a sequence lock). If the writer dies in the middle of a write, the reader gets the incomplete value and is
// told so. One writer at a time; any number of readers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <type_traits>

namespace longhaul {

template <class T>
class Sequenced {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);

 public:
  void store(const T& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    const uint64_t version = version_.load(std::memory_order_relaxed) | 1;
    version_.store(version, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_release);
  }
  // Only for the writer.
  template <class Change>
  void change(const Change& change) {
    T value = words();
    change(value);
    store(value);
  }

  struct Read {
    T value;
    bool torn = false;  // the writer stopped in the middle of a write
  };
  Read load() const {
    // A store takes less than a microsecond; a thread that was descheduled in the middle returns within some
    // milliseconds.
    constexpr int kAtOnce = 1'000, kPatient = 100;
    for (int attempt = 0; attempt < kAtOnce + kPatient; ++attempt) {
      if (attempt >= kAtOnce) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const uint64_t before = version_.load(std::memory_order_acquire);
      const T value = words();
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) return {value};
    }
    return {words(), true};
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  T words() const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }
  std::atomic<uint64_t> version_;
  std::array<std::atomic<uint64_t>, kWords> words_;
};

}  // namespace longhaul
