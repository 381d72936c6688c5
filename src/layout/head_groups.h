// Groups of key heads that cross context ranks one after the other where keys and values are gathered (parallel/context/gathered_attention.h; the planner
// counts what is there at once).
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul::layout {

inline int64_t key_head_groups(int64_t key_heads) { return std::clamp<int64_t>(key_heads, 1, 4); }

}  // namespace longhaul::layout
