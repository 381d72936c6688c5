// Checksums: crc32c for frames and tensors, xxh3 for speed, sha256 for files whose origin matters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace longhaul {

// Castagnoli; crc32c("123456789") = e3069283.
uint32_t crc32c(std::span<const std::byte> data, uint32_t previous = 0);
uint32_t crc32c(std::string_view data, uint32_t previous = 0);
// Without the SSE4.2 instruction.
uint32_t crc32c_tables(std::span<const std::byte> data, uint32_t previous = 0);
uint64_t xxh3(std::span<const std::byte> data);
uint64_t xxh3(std::string_view data);
std::string sha256_hex(std::string_view data);

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(std::span<const std::byte> data);
  std::string hex();  // ends the hash

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul
