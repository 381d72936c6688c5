// Conversion between paths and text. A path is any bytes but NUL, while recipes, JSON and events hold UTF-8.
// Therefore a path that is not UTF-8, or that holds control characters, is written as "file:" and its bytes,
// with %XX for those that are not allowed there, as in a file URL; every other path is its own text. Reading
// the text gives the same bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longhaul {

std::string text_of_path(const std::filesystem::path& path);

// "file:…" is decoded ("file:///a%20b" is "/a b"); a leading "~" or "~/…" is replaced by $HOME. kUsage where
// "file:" has a % without two hexadecimal digits, or %00.
std::filesystem::path path_of_text(std::string_view text);

}  // namespace longhaul
