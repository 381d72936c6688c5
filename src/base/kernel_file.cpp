#include "base/kernel_file.h"

#include <algorithm>
#include <array>

#include "base/file.h"

namespace longhaul {

std::string kernel_text(const std::filesystem::path& path, size_t most_bytes) {
  std::string text;
  try {
    const File file = File::open(path, File::Mode::kRead);
    std::array<std::byte, 4096> bytes{};
    while (text.size() < most_bytes) {
      const size_t got = file.read_some(static_cast<int64_t>(text.size()), bytes);
      if (got == 0) break;
      text.append(reinterpret_cast<const char*>(bytes.data()), std::min(got, most_bytes - text.size()));
    }
  } catch (const Error&) {
    return "";
  }
  return text;
}

std::string kernel_line(const std::filesystem::path& path) {
  const std::string text = kernel_text(path, 256);
  return text.substr(0, text.find('\n'));
}

}  // namespace longhaul
