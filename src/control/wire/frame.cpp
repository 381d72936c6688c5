#include "control/wire/frame.h"

#include <cstdint>

#include "base/checksum.h"
#include "base/error.h"

namespace longhaul::control {
namespace {

constexpr size_t kHeaderBytes = 8;

void append_u32(std::string& bytes, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift));
}
uint32_t u32_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

[[noreturn]] void damaged(std::string expected, std::string found) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "a message of the control plane is damaged",
               .expected = std::move(expected),
               .found = std::move(found)});
}

}  // namespace

std::string to_frame(std::string_view payload) {
  LONGHAUL_ASSERT(payload.size() <= kFrameLimit, "a message of {} bytes", payload.size());
  std::string frame;
  frame.reserve(kHeaderBytes + payload.size());
  append_u32(frame, static_cast<uint32_t>(payload.size()));
  append_u32(frame, crc32c(payload));
  return frame.append(payload);
}

std::optional<std::string> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  if (rest.size() >= kHeaderBytes) {
    const size_t length = u32_at(rest, 0);
    if (length > limit_)
      damaged(fmt::format("at most {} bytes", limit_), fmt::format("{} announced", length));
    if (rest.size() - kHeaderBytes >= length) {
      std::string payload(rest.substr(kHeaderBytes, length));
      if (crc32c(payload) != u32_at(rest, 4)) damaged("its checksum", "another");
      taken_ += kHeaderBytes + length;
      return payload;
    }
  }
  bytes_.erase(0, taken_);
  taken_ = 0;
  return std::nullopt;
}

}  // namespace longhaul::control
