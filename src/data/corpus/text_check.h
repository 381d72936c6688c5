// Decides whether a file is text from its beginning (the first 64 KiB, decompressed), so that pictures,
// archives and programs in a folder of texts are left out. Text in an old 8-bit encoding of a Latin script
// passes, because few of its bytes are not UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longhaul::data {

inline constexpr size_t kTextCheckBytes = 64 << 10;

// Empty for text; else the reason: a byte order mark of UTF-16 or UTF-32, a NUL byte, more than 5 % other
// control characters, or more than 30 % bytes that are not UTF-8 (either share needs at least 16 such bytes).
std::string why_not_text(std::string_view head);

}  // namespace longhaul::data
