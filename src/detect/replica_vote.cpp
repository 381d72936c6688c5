#include "detect/replica_vote.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace longhaul::detect {

Vote vote(std::span<const uint64_t> hashes) {
  std::map<uint64_t, size_t> counts;
  for (const uint64_t hash : hashes) ++counts[hash];
  Vote result{.agreed = counts.size() < 2};
  if (result.agreed) return result;
  const auto most = std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
  result.majority = most->second * 2 > hashes.size();
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (!result.majority || hashes[i] != most->first) result.suspects.push_back(i);
  }
  return result;
}

Vote vote_in_ring(std::span<const uint64_t> own, std::span<const uint64_t> next) {
  const size_t n = own.size();
  LONGHAUL_ASSERT(next.size() == n && n > 0, "{} and {}", n, next.size());
  std::vector<int> in_pairs(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const size_t other = (i + 1) % n;
    if (next[i] == own[other]) continue;
    ++in_pairs[i];
    if (other != i) ++in_pairs[other];
  }
  const int most = *std::ranges::max_element(in_pairs);
  Vote result{.agreed = most == 0};
  if (result.agreed) return result;
  for (size_t i = 0; i < n; ++i) {
    if (in_pairs[i] == most) result.suspects.push_back(i);
  }
  result.majority = result.suspects.size() == 1;
  return result;
}

}  // namespace longhaul::detect
