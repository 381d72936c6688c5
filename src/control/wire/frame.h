// Frames: how messages stand one behind the other in a stream of bytes. Length (u32, little-endian), CRC-32C of the payload (u32), payload.
// A length is looked at before anything is stored: what claims more than the limit ends the stream. Source: docs/sources/reliability.md §5.2.
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
  std::string& input() { return bytes_; }  // what has arrived is put at its end
  // The next whole frame's payload. Error 69 where the stream is damaged: nothing after it can be read.
  std::optional<std::string> next();

 private:
  size_t limit_;
  std::string bytes_;
  size_t taken_ = 0;  // of bytes_, by frames that were handed out
};

}  // namespace longhaul::control
