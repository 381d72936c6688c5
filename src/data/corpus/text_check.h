// Is this file text? Told by how it begins (its first 64 KiB, decompressed), so that pictures, archives and programs that lie in a
// folder of texts are left out of it. Text in an old 8-bit encoding of a Latin script passes: few of its bytes are not UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace longhaul::data {

inline constexpr size_t kTextCheckBytes = 64 << 10;

// Empty for text; else why not: a byte order mark of UTF-16 or UTF-32, a NUL byte, more than 5 % other control characters, or more than
// 30 % bytes that are not UTF-8 (either share counts from 16 such bytes on).
std::string why_not_text(std::string_view head);

}  // namespace longhaul::data
