#include "kernels/quantized_state/code_map.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace longhaul::kernels {
namespace {

constexpr int kDecades = 7;

std::vector<float> sizes_of_map(bool with_signs) {
  std::vector<float> sizes = {0};
  for (int i = 0; i < kDecades; ++i) {
    const int count = 1 << (with_signs ? i : i + 1);
    for (int j = 0; j < count; ++j)
      sizes.push_back(
          static_cast<float>((0.1 + 0.9 * (j + 0.5) / count) * std::pow(10.0, i - (kDecades - 1))));
  }
  sizes.push_back(1);
  return sizes;
}

CodeMap made_map(bool with_signs) {
  const std::vector<float> sizes = sizes_of_map(with_signs);
  CodeMap map;
  map.last_size = static_cast<int32_t>(sizes.size()) - 1;
  map.last_negative = with_signs ? map.last_size - 1 : 0;
  map.zero = map.last_negative;
  LONGHAUL_ASSERT(map.zero + map.last_size + 1 == CodeMap::kCodes, "{} sizes", sizes.size());
  std::ranges::copy(sizes, map.sizes.begin());
  map.sizes[sizes.size()] = sizes.back();
  for (int32_t code = 0; code < CodeMap::kCodes; ++code) {
    const float size = sizes[static_cast<size_t>(std::abs(code - map.zero))];
    map.values[static_cast<size_t>(code)] = code < map.zero ? -size : size;
  }
  for (int32_t bin = 1; bin < CodeMap::kBins; ++bin) {
    const auto edge = std::bit_cast<float>(static_cast<uint32_t>(CodeMap::kFirstBin + bin) << 16);
    const auto below = static_cast<int32_t>(std::ranges::lower_bound(sizes, edge) - sizes.begin()) - 1;
    map.bins[static_cast<size_t>(bin)] =
        static_cast<int32_t>(std::ranges::upper_bound(sizes, edge) - sizes.begin()) - 1;
    LONGHAUL_ASSERT(below - map.bins[static_cast<size_t>(bin - 1)] <= 1, "bin {} holds two sizes", bin - 1);
  }
  return map;
}

}  // namespace

const CodeMap& signed_map() {
  static const CodeMap map = made_map(true);
  return map;
}

const CodeMap& unsigned_map() {
  static const CodeMap map = made_map(false);
  return map;
}

}  // namespace longhaul::kernels
