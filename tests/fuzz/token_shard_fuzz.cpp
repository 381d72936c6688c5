// Fuzz target: the header of a token shard, and a JSON line as it comes in pieces. Whatever the bytes, the
// reader either takes them or throws Error; it never reads behind them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "data/corpus/json_lines.h"
#include "data/tokens/shard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    data::parse_shard_header(bytes, static_cast<int64_t>(size), "fuzz");
  } catch (const Error&) {
  }
  // the same with a right checksum, so that the checks behind it are reached
  if (size >= data::kShardHeaderBytes) {
    std::vector<std::byte> header(bytes.begin(), bytes.begin() + data::kShardHeaderBytes);
    std::memcpy(header.data(), "LHTOKENS\1\0\0\0", 12);
    const uint64_t checksum = xxh3(std::span<const std::byte>(header).first(header.size() - 8));
    std::memcpy(header.data() + header.size() - 8, &checksum, 8);
    try {
      data::parse_shard_header(header, static_cast<int64_t>(size), "fuzz");
    } catch (const Error&) {
    }
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t produced = 0;
  data::JsonTextScanner scanner(
      "text", [] {}, [&](std::string_view piece) { produced += piece.size(); });
  const size_t half = size / 2;
  if (scanner.feed(text.substr(0, half)) && scanner.feed(text.substr(half))) scanner.finish();
  if (produced > 3 * size) __builtin_trap();
  return 0;
}
