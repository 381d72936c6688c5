// Paths as text and text as paths. A path is any bytes but NUL; recipes, JSON and events hold UTF-8. So a path that is not UTF-8, or
// that holds control characters, is written "file:" and its bytes, those that cannot stand there as %XX, as in a URL of a file; every
// other path is its own text. Read back, the text gives the same bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longhaul {

std::string text_of_path(const std::filesystem::path& path);

// "file:…" is decoded ("file:///a%20b" is "/a b"); "~" and "~/…" begin with $HOME. kUsage: "file:" and a % without two hexadecimal digits, or %00.
std::filesystem::path path_of_text(std::string_view text);

}  // namespace longhaul
