// HandedMemory: memory that one process creates and others of the same machine and user map. It exists as
// long as any of them maps it, and no file has to be removed. A process that has mapped another's memory can
// see whether its maker still lives. There are also functions with which a process sleeps until another
// changes a word of the memory.
//
//   HandedMemory mine = HandedMemory::make(65'536);                                  // zeroed
//   // address: the maker's address()
//   std::optional<HandedMemory> theirs = HandedMemory::open(address, 65'536);
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace longhaul {

class HandedMemory {
 public:
  static HandedMemory make(size_t bytes);  // kOutOfMemory where there is none
  // Empty if the address is of another machine, container or user, if its maker has ended, or if the size
  // differs.
  static std::optional<HandedMemory> open(const std::string& address, size_t bytes);

  HandedMemory(HandedMemory&& other) noexcept;
  HandedMemory& operator=(HandedMemory&&) = delete;
  ~HandedMemory();

  const std::string& address() const { return address_; }
  std::byte* data() const;   // aligned to 64 bytes
  bool maker_lives() const;  // for memory that was opened

 private:
  HandedMemory(int descriptor, std::byte* mapped, size_t bytes, std::string address);
  int descriptor_;
  std::byte* mapped_;
  size_t bytes_;
  std::string address_;
};

// Sleeps while `word` equals `seen`, until wake_all() of any process or until the time is over; it may return
// early.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest);
void wake_all(const std::atomic<uint32_t>& word);

}  // namespace longhaul
