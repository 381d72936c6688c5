// Lines of files of questions: JSON Lines, blank lines and a byte order mark left out. A file without any
// question, and a folder without any such file, are kData errors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "base/text/utf8.h"

namespace longhaul::evaluate {

struct QuestionLine {
  std::string text, where;  // where: "file.jsonl:12"
};

// The first `limit` lines (0: all).
std::vector<QuestionLine> question_lines(const std::filesystem::path& file, int64_t limit = 0);

// The file itself, or the files below the folder whose names end so, in the order of their paths.
std::vector<std::filesystem::path> question_files(const std::filesystem::path& path,
                                                  const std::vector<std::string_view>& ends);

}  // namespace longhaul::evaluate
