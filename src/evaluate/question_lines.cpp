#include "evaluate/question_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/file.h"

namespace longhaul::evaluate {

namespace fs = std::filesystem;

std::vector<QuestionLine> question_lines(const fs::path& file, int64_t limit) {
  const std::string whole = read_text(file), text(without_byte_order_mark(whole));
  std::vector<QuestionLine> lines;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    ++number;
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    lines.push_back({std::move(line), fmt::format("{}:{}", file.string(), number)});
    if (limit > 0 && static_cast<int64_t>(lines.size()) == limit) break;
  }
  if (lines.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "there are no questions",
                 .expected = "JSON Lines, one question a line",
                 .found = "none",
                 .where = file.string()});
  }
  return lines;
}

std::vector<fs::path> question_files(const fs::path& path, const std::vector<std::string_view>& ends) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = entry.path().string();
    if (entry.is_regular_file() &&
        std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); }))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  if (files.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "there are no questions",
                 .expected = fmt::format("files {} below the folder", fmt::join(ends, ", ")),
                 .found = "none",
                 .where = path.string()});
  }
  return files;
}

}  // namespace longhaul::evaluate
