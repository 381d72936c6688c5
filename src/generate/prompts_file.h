// Reads prompts from a file. In FILE.jsonl each line is a JSON value: {"prompt": "…"} with a text that may
// contain line ends, or {"ids": […]} with all token ids that the model is to read. In any other file each
// line is a prompt as it stands. Empty lines are skipped, and a byte order mark before the first line is
// not part of the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::generate {

struct Prompt {
  std::string text;
  std::optional<std::vector<int64_t>> ids{};  // instead of a text
  std::string where{};                        // file and line
};

// kData: no such file, a bad line, or no prompt in it
std::vector<Prompt> read_prompts(const std::filesystem::path& path);

}  // namespace longhaul::generate
