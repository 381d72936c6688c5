#include "data/tokenizer/stream_encoder.h"

#include <algorithm>

#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

namespace {

constexpr size_t kWorkingBytes = 256 << 10;

// Without the first bytes of a character whose other bytes have not come yet.
std::string_view complete_part(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const uint8_t byte = static_cast<uint8_t>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? text.substr(0, text.size() - back) : text;
  }
  return text;
}

}  // namespace

StreamEncoder::StreamEncoder(Tokenizer tokenizer, bool add_special, int64_t limit_bytes)
    : tokenizer_(std::move(tokenizer)),
      add_special_(add_special),
      limit_bytes_(static_cast<size_t>(std::max<int64_t>(limit_bytes, 64))),
      try_again_at_(std::min(kWorkingBytes, limit_bytes_)) {}

void StreamEncoder::feed(std::string_view chunk, std::vector<int32_t>& ids) {
  while (!chunk.empty()) {
    const size_t taken = std::min(chunk.size(), kWorkingBytes);
    buffer_.append(chunk.substr(0, taken));
    chunk.remove_prefix(taken);
    if (buffer_.size() < try_again_at_) continue;
    const std::string_view complete = complete_part(buffer_);
    const int64_t cut = tokenizer_.last_safe_cut(complete);
    if (cut > 0) {
      encode_front(static_cast<size_t>(cut), false, ids);
    } else if (buffer_.size() >= limit_bytes_) {
      exact_ = false;
      encode_front(forced_cut(complete), false, ids);
    } else {
      // Searching again only when the buffer has doubled keeps the total search linear.
      try_again_at_ = std::min(limit_bytes_, cut < 0 ? limit_bytes_ : buffer_.size() * 2);
      continue;
    }
    try_again_at_ = std::min(limit_bytes_, std::max(kWorkingBytes, buffer_.size() * 2));
  }
}

void StreamEncoder::finish(std::vector<int32_t>& ids) {
  encode_front(buffer_.size(), true, ids);
  first_ = true;
  try_again_at_ = std::min(kWorkingBytes, limit_bytes_);
}

void StreamEncoder::encode_front(size_t size, bool last, std::vector<int32_t>& ids) {
  tokenizer_.encode_part(std::string_view(buffer_).substr(0, size), {.first = first_, .last = last}, ids,
                         add_special_);
  buffer_.erase(0, size);
  first_ = false;
}

size_t StreamEncoder::forced_cut(std::string_view complete) const {
  if (complete.empty()) return buffer_.size();
  const size_t line = complete.rfind('\n');
  return line != std::string_view::npos && line >= complete.size() / 2 ? line + 1 : complete.size();
}

}  // namespace longhaul::data
