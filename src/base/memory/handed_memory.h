// HandedMemory: memory that a process makes and others of the same machine and user map, as long as any of them has it; no file has to be removed.
// Whoever has mapped another's sees whether that one still lives. Beside it, how a process sleeps until another has changed a word of it.
//
//   HandedMemory mine = HandedMemory::make(65'536);                                  // zeroed
//   std::optional<HandedMemory> theirs = HandedMemory::open(address, 65'536);        // as theirs.address() is, told some other way
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
  // Empty: it is of another machine, container or user, its maker has gone, or it is of another size.
  static std::optional<HandedMemory> open(const std::string& address, size_t bytes);

  HandedMemory(HandedMemory&& other) noexcept;
  HandedMemory& operator=(HandedMemory&&) = delete;
  ~HandedMemory();

  const std::string& address() const { return address_; }
  std::byte* data() const;   // aligned to 64
  bool maker_lives() const;  // of one that was opened

 private:
  HandedMemory(int descriptor, std::byte* mapped, size_t bytes, std::string address);
  int descriptor_;
  std::byte* mapped_;
  size_t bytes_;
  std::string address_;
};

// Until `word` is no longer `seen`, as far as wake_all() of any process says so, or the time is over; may return early.
void sleep_while(const std::atomic<uint32_t>& word, uint32_t seen, std::chrono::milliseconds longest);
void wake_all(const std::atomic<uint32_t>& word);

}  // namespace longhaul
