#include "bench/models/small_text.h"

#include <fmt/format.h>

#include <fstream>

#include "base/files/file.h"

namespace longhaul::bench {

void write_small_text(const std::filesystem::path& folder, int files) {
  make_folders(folder);
  for (int i = 0; i < files; ++i) {
    std::string text;
    for (int word = 0; word < 60; ++word) text += fmt::format("{} ", (word * 7919 + i * 104729) % 997);
    std::ofstream(folder / fmt::format("{}.txt", i)) << text << "\n";
  }
}

}  // namespace longhaul::bench
