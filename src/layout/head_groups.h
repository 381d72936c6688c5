// The number of groups of key heads that are gathered one after the other over context ranks, to limit memory
// (parallel/context/gathered_attention.h; the planner counts what exists at once).
#pragma once

#include <algorithm>
#include <cstdint>

namespace longhaul::layout {

inline int64_t key_head_groups(int64_t key_heads) { return std::clamp<int64_t>(key_heads, 1, 4); }

}  // namespace longhaul::layout
