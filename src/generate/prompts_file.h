// Prompts from a file. In FILE.jsonl each line is a JSON text, {"prompt": "…"} with a text that may hold line ends, or {"ids": […]} with all the
// token ids that the model is to read; in any other file each line is a prompt as it stands. Empty lines are none, and a byte order mark in front of
// the first one is no text.
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

std::vector<Prompt> read_prompts(const std::filesystem::path& path);  // kData: no such file, a bad line, or no prompt in it

}  // namespace longhaul::generate
