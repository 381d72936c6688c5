#include "observe/events/line_tail.h"

#include <algorithm>
#include <system_error>

#include "base/files/file_beneath.h"

namespace longhaul::observe {
namespace {

constexpr int64_t kTailChunk = 1 << 20;
constexpr int64_t kKnownBytes = 128;
constexpr int64_t kLongestTailLine = 16 << 20;

std::string bytes_of(const FileBeneath& file, int64_t begin, int64_t most) {
  std::string text(static_cast<size_t>(most), '\0');
  text.resize(file.read_some(begin, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

bool LineTail::poll(const std::function<void(std::string_view)>& take) {
  began_anew_ = false;
  std::error_code failed;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path_, failed));
  if (failed || (size == seen_bytes_ && size == offset_)) return false;
  bool any = false;
  try {
    const FileBeneath file(folder_, name_);
    const std::string begin = bytes_of(file, 0, kKnownBytes);
    if (size < offset_ || !begin.starts_with(begin_)) {
      began_anew_ = offset_ > 0;
      offset_ = 0;
    }
    bool first = offset_ == 0 && most_bytes_ > 0 && size > most_bytes_, skip = false;
    std::string rest;  // the begin of a line that crosses chunks
    for (int64_t at = offset_; at < size;) {
      const std::string chunk = bytes_of(file, at, std::min(kTailChunk, size - at));
      if (chunk.empty()) break;
      at += static_cast<int64_t>(chunk.size());
      rest += chunk;
      size_t from = 0;
      for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', from)) {
        if (!skip) take(std::string_view(rest).substr(from, end - from));
        any = true, skip = false, from = end + 1;
        offset_ = at - static_cast<int64_t>(rest.size() - from);
        if (!first) continue;
        first = false, skip = true;  // into the middle of a line
        at = std::max(offset_, size - most_bytes_);
        rest.clear(), from = 0;
        break;
      }
      rest.erase(0, from);
      if (static_cast<int64_t>(rest.size()) > kLongestTailLine) rest.clear(), skip = true;  // no line of ours
    }
    seen_bytes_ = size;
    // Only of complete lines: the rest may be cut and written again.
    begin_ = begin.substr(0, static_cast<size_t>(std::min(kKnownBytes, offset_)));
  } catch (const Error&) {  // removed since, or forbidden: the next poll tries again
  }
  return any;
}

}  // namespace longhaul::observe
