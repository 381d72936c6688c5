#include "base/machine/kernel_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "base/files/file.h"
#include "base/text/number.h"

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

double kernel_number(const std::filesystem::path& path) {
  return leading_number<double>(kernel_line(path)).value_or(0);
}

std::map<std::string, std::string> kernel_fields(const std::filesystem::path& path) {
  std::map<std::string, std::string> values;
  std::istringstream lines(kernel_text(path));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t name_end = line.find_last_not_of(" \t", colon ? colon - 1 : 0);
    const size_t value_begin = line.find_first_not_of(" \t", colon + 1);
    values.emplace(line.substr(0, name_end + 1),
                   value_begin == std::string::npos ? "" : line.substr(value_begin));
  }
  return values;
}

int64_t bytes_named(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? 0 : std::strtoll(found->second.c_str(), nullptr, 10) * 1024;
}

}  // namespace longhaul
