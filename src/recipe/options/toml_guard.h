// A check of the text before the TOML parser sees it. The parser (toml++ 3.3) builds nested tables
// recursively without limit, asserts on "[[[a" and "a = [}", and its test for blanks is undefined for most
// characters beyond ASCII outside quotes. The guard refuses those texts, so that no input can do more than
// fail to load.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::recipe {

// Throws kUsage: the text is not valid TOML at name:line:column.
[[noreturn]] void refuse_toml(const std::string& name, int64_t line, int64_t column, std::string_view found);

void guard_toml(std::string_view text, const std::string& name);

}  // namespace longhaul::recipe
