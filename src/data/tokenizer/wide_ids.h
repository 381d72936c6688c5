// Ids as tokenizers have them, in the 64 bits that models read.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::data {

inline std::vector<int64_t> wide_ids(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

}  // namespace longhaul::data
