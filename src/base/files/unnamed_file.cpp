#include "base/files/unnamed_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

namespace longhaul {

File unnamed_file(const std::filesystem::path& folder) {
  static std::atomic<int> number{0};
  const auto path = folder / fmt::format("longhaul-unnamed-{}-{}", ::getpid(), number++);
  File file = File::open(path, File::Mode::kReadWrite);
  std::filesystem::remove(path);
  return file;
}

}  // namespace longhaul
