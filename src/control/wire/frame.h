// Frames separate the messages in a stream of bytes. A frame is the length (u32, little-endian), the CRC-32C
// of the payload (u32), and the payload. The length is checked before anything is stored: a frame that claims
// more than the limit ends the stream. Source: docs/sources/reliability.md §5.2.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul::control {

inline constexpr size_t kFrameLimit = 1 << 20;  // bytes of a payload

std::string to_frame(std::string_view payload);

class FrameReader {
 public:
  explicit FrameReader(size_t limit = kFrameLimit) : limit_(limit) {}
  void set_limit(size_t limit) { limit_ = limit; }
  std::string& input() { return bytes_; }  // append received bytes here
  // Returns the payload of the next complete frame. Error 69 where the stream is damaged: nothing after it
  // can be read.
  std::optional<std::string> next();

 private:
  size_t limit_;
  std::string bytes_;
  size_t taken_ = 0;  // bytes of bytes_ that belong to frames already returned
};

}  // namespace longhaul::control
