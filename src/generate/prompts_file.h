// Prompts from a file. In FILE.jsonl each line is a JSON text or {"prompt": "…"}, which may hold line ends; in any other file each line is a
// prompt as it stands. Empty lines are none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::generate {

std::vector<std::string> read_prompts(const std::filesystem::path& path);  // kData: no such file, a bad line, or no prompt in it

}  // namespace longhaul::generate
